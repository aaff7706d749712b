# From an older PostgreSQL: logical replication to this one, and pg_upgrade, which takes indexes' files over as they are.
# FPBTREE_OLDER says where the older one is installed, as /usr/lib/postgresql/16; scripts/from-before sees to it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $older = $ENV{FPBTREE_OLDER};
plan skip_all => 'left out: no older PostgreSQL is named' if !$older;

my $old = PostgreSQL::Test::Cluster->new('old', install_path => $older);
my $new = PostgreSQL::Test::Cluster->new('new');
for my $node ($old, $new)
{
	my $is_summed = $node->pg_version->major >= 18;
	$node->init(allows_streaming => 'logical', extra => [ '--encoding', 'UTF8', $is_summed ? '--no-data-checksums' : () ]);
	# The module is the newer one's.
	$node->adjust_conf('postgresql.conf', 'autovacuum_worker_slots', undef) if !$is_summed;
	$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\njit = off\nshared_preload_libraries = 'fpbtree'\n");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION fpbtree');
}
note "from @{[ $old->pg_version ]} to @{[ $new->pg_version ]}";

# Subscribers up to 17 find rows by btree alone.
my $key = $new->pg_version->major >= 18 ? 'PRIMARY KEY WITH (method = fpbtree)' : 'PRIMARY KEY';
my $table = "CREATE TABLE t (id bigint %s, v int, w text COLLATE \"C\", l text, n numeric, f float8, u uuid, d date, j jsonb, r int4range, a int[]);\n";
my %indexes = (
	t_v => '(v)', t_wl => '(w, l DESC) INCLUDE (id)', t_n => '(n DESC NULLS FIRST)', t_fv => '(f, v)', t_u => '(u)', t_dv => '(d DESC, v)',
	t_j => '(j)', t_r => '(r)', t_a => '(a)', t_part => '(v) WHERE v > 50', t_expression => '((v % 10), id)');
my @all = ('t_id', sort keys %indexes);
my $indexes = "CREATE UNIQUE INDEX t_id ON t USING fpbtree (id);\n" . join '', map { "CREATE INDEX $_ ON t USING fpbtree $indexes{$_};\n" } sort keys %indexes;
my $rows = q{SELECT i, i % 100, 'word ' || i % 300, 'Länge ' || md5(i::text), round(i / 7.0, i % 4), CASE WHEN i % 50 = 0 THEN '-0' ELSE i / 8.0 END,
	md5(i::text)::uuid, date '2026-01-01' + i % 500, jsonb_build_object('a', i % 40), int4range(i % 30, i % 30 + 5), ARRAY[i % 20, NULLIF(i % 7, 3)] FROM generate_series(%d, %d) i};
$old->safe_psql('postgres', sprintf($table, 'PRIMARY KEY') . $indexes . 'INSERT INTO t ' . sprintf($rows, 1, 20000) . '; CREATE PUBLICATION p FOR TABLE t');
$new->safe_psql('postgres', sprintf($table, $key) . $indexes . "CREATE SUBSCRIPTION s CONNECTION '@{[ $old->connstr ]} dbname=postgres' PUBLICATION p");
$new->wait_for_subscription_sync($old, 's');

my $digest = 'SELECT count(*), sum(hashtextextended(x::text, 0)) FROM t x';
my @queries = (
	'SELECT v, count(*) FROM t WHERE v BETWEEN 20 AND 40 GROUP BY v', q{SELECT w, l FROM t WHERE w > 'word 2' ORDER BY w, l DESC}, 'SELECT trim_scale(n) FROM t WHERE n > 1000 ORDER BY n DESC NULLS FIRST', 'SELECT n FROM t WHERE n > 1000',
	'SELECT f, v FROM t WHERE f < 100', q{SELECT u FROM t WHERE u > '80000000-0000-0000-0000-000000000000'}, q{SELECT d, v FROM t WHERE d = '2026-03-01'}, q{SELECT j FROM t WHERE j = '{"a": 7}'},
	q{SELECT r FROM t WHERE r > '[10,12)'}, q{SELECT a FROM t WHERE a = '{3,3}'}, 'SELECT v FROM t WHERE v > 90', 'SELECT id FROM t WHERE v % 10 = 3 AND id < 500');
sub is_alike
{
	my ($name) = @_;
	$old->wait_for_catchup('s');
	is($new->safe_psql('postgres', $digest), $old->safe_psql('postgres', $digest), "$name: the same rows");
	is_sound($_, "$name, @{[ $_->name ]}", @all) for $old, $new;
	return;
}
is_alike('copied');
$old->safe_psql('postgres', <<"SQL");
UPDATE t SET v = v + 1, w = w || '+' WHERE id % 3 = 0;
UPDATE t SET id = id + 100000, n = -n WHERE id % 11 = 0;
DELETE FROM t WHERE id % 13 = 0;
INSERT INTO t @{[ sprintf $rows, 20001, 26000 ]};
BEGIN; DELETE FROM t; ROLLBACK;
SQL
is_alike('changed');
answers_alike($new, 'subscriber', @queries);
$new->safe_psql('postgres', 'DROP SUBSCRIPTION s; DROP TABLE t; DROP EXTENSION fpbtree');
$old->safe_psql('postgres', 'DROP PUBLICATION p; VACUUM ANALYZE t');

# pg_upgrade: no file of an index is another afterwards.
my $was = $old->safe_psql('postgres', $digest);
my $sizes = q{SELECT string_agg(relname || ' ' || pg_relation_size(oid), ', ' ORDER BY relname) FROM pg_class WHERE relname ~ '^t_' AND relkind = 'i'};
my $had = $old->safe_psql('postgres', $sizes);
$_->stop for $old, $new;
chdir PostgreSQL::Test::Utils::tempdir;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir, '-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'),
	'-s', $old->host, '-p', $old->port, '-P', $new->port, '--copy' ], 'pg_upgrade');
$new->start;
is($new->safe_psql('postgres', $digest), $was, 'upgraded: the same rows');
is($new->safe_psql('postgres', $sizes), $had, 'upgraded: the same files');
is_sound($new, 'upgraded', @all);
answers_alike($new, 'upgraded', @queries);
$new->safe_psql('postgres', 'UPDATE t SET v = v + 1, n = n + 1 WHERE id % 5 = 0; DELETE FROM t WHERE id % 17 = 0; VACUUM t; INSERT INTO t ' . sprintf($rows, 30001, 36000));
is_sound($new, 'written to', @all);
answers_alike($new, 'written to', @queries);
server_is_clean($new, 'new');
$new->stop;
done_testing();
