# pglogical: a subscriber finds rows, and what is in the way of them, by fpbtree's indexes.
# Needs: pglogical
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $provider = PostgreSQL::Test::Cluster->new('provider');
plan skip_all => 'left out: constraints cannot have fpbtree indexes before PostgreSQL 18' if $provider->pg_version->major < 18;
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
for my $node ($provider, $subscriber)
{
	$node->init(allows_streaming => 'logical', extra => [ '--encoding', 'UTF8' ]);
	$node->append_conf('postgresql.conf', <<'END');
shared_preload_libraries = 'pglogical,fpbtree'
track_commit_timestamp = on
pglogical.conflict_resolution = 'last_update_wins'
fsync = off
jit = off
END
	$node->start;
	trust_output_plugin($node, 'pglogical_output');
	$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION pglogical;
CREATE EXTENSION fpbtree;
CREATE TABLE t (id int PRIMARY KEY WITH (method = fpbtree), key text COLLATE "C" NOT NULL UNIQUE WITH (method = fpbtree), v int, note text);
CREATE INDEX t_v ON t USING fpbtree (v) INCLUDE (id);
CREATE TABLE pairs (part text COLLATE "C", number numeric, v int, PRIMARY KEY (part, number) WITH (method = fpbtree));
SELECT pglogical.create_node('@{[ $node->name ]}', '@{[ $node->connstr ]} dbname=postgres');
SQL
}
$provider->safe_psql('postgres', <<'SQL');
INSERT INTO t SELECT i, 'key ' || i, i % 100, CASE WHEN i % 50 = 0 THEN (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 200) j) ELSE 'note' END FROM generate_series(1, 5000) i;
INSERT INTO pairs SELECT 'part ' || i % 10, i * 1.5, i FROM generate_series(1, 5000) i;
SELECT pglogical.replication_set_add_all_tables('default', '{public}');
SQL
$subscriber->safe_psql('postgres', "SELECT pglogical.create_subscription('s', '@{[ $provider->connstr ]} dbname=postgres'); SELECT pglogical.wait_for_subscription_sync_complete('s')");

sub is_alike
{
	my ($name) = @_;
	$provider->safe_psql('postgres', 'SELECT pglogical.wait_slot_confirm_lsn(NULL, NULL)');
	for my $table ('t', 'pairs')
	{
		my ($there, $here) = map { $_->safe_psql('postgres', "SELECT count(*), sum(hashtextextended(x::text, 0)) FROM $table x") } $provider, $subscriber;
		is($here, $there, "$name: $table");
	}
	is_sound($subscriber, $name, 't_pkey', 't_key_key', 't_v', 'pairs_pkey');
	return;
}
is_alike('copied');
$provider->safe_psql('postgres', <<'SQL');
UPDATE t SET v = v + 1 WHERE id % 3 = 0;
UPDATE t SET note = NULL, key = key || '!' WHERE id % 7 = 0;
UPDATE t SET id = id + 100000 WHERE id % 11 = 0;
DELETE FROM t WHERE id % 13 = 0;
UPDATE pairs SET number = number + 0.25 WHERE v % 5 = 0;
DELETE FROM pairs WHERE part = 'part 3';
INSERT INTO pairs SELECT 'part 3', i, i FROM generate_series(1, 500) i;
BEGIN; DELETE FROM t; ROLLBACK;
SQL
is_alike('changed');

# Rows of the subscriber's own are in the way, by the one key and by the other: the later row stays.
$subscriber->safe_psql('postgres', q{INSERT INTO t VALUES (-1, 'own 1', 0), (-2, 'own 2', 0)});
$provider->safe_psql('postgres', q{INSERT INTO t VALUES (-1, 'late 1', 1), (-3, 'own 2', 1)});
is_alike('in conflict');
# Its worker tells of its scans when it ends.
$subscriber->safe_psql('postgres', q{SELECT pglogical.alter_subscription_disable('s', true)});
ok($subscriber->poll_query_until('postgres', q{SELECT bool_and(idx_scan > 100) FROM pg_stat_user_indexes WHERE indexrelname IN ('t_pkey', 'pairs_pkey')}), 'found by the keys');
answers_alike($subscriber, 'subscriber', 'SELECT v, id FROM t WHERE v BETWEEN 20 AND 40', q{SELECT key FROM t WHERE key > 'key 3' ORDER BY key}, q{SELECT number FROM pairs WHERE part = 'part 3' ORDER BY number});
server_is_clean($_, $_->name), $_->stop for $subscriber, $provider;
done_testing();
