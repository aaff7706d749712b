# The server is killed under a load that writes, again and again; each time the indexes come back
# sound, with every row. Some have the server's generic log, some our own.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $rounds = 5;
my $node = PostgreSQL::Test::Cluster->new('crash');
$node->init;
# Small enough that pages are written while the load runs, and checkpoints fall into it.
$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 4MB
checkpoint_timeout = 30s
max_wal_size = 64MB
min_wal_size = 32MB
autovacuum = off
bgwriter_delay = 10ms
bgwriter_lru_maxpages = 1000
restart_after_crash = off
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE SEQUENCE ids START 60001;
CREATE TABLE t (id int DEFAULT nextval('ids'), v int, w int2, d date, u uuid);
INSERT INTO t SELECT i, hashint4(i), i % 1000, date '2000-01-01' + i % 3000, md5(i::text)::uuid FROM generate_series(1, 60000) i;
CREATE INDEX t_id ON t USING fpbtree (id);
CREATE INDEX t_v ON t USING fpbtree (v);
CREATE INDEX t_list ON t USING fpbtree (w DESC, d, id) WITH (fillfactor = 100);
CREATE INDEX t_text ON t USING fpbtree ((u::text) COLLATE "C", (v::text) COLLATE "C");
SQL
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
$node->restart;
$node->safe_psql('postgres', <<'SQL');
CREATE INDEX t_own_id ON t USING fpbtree (id);
CREATE INDEX t_own_text ON t USING fpbtree ((u::text) COLLATE "C") INCLUDE (d);
CREATE INDEX t_u ON t USING fpbtree (u);
CREATE INDEX t_null ON t USING fpbtree ((nullif(w, w)));
CREATE INDEX t_part ON t USING fpbtree (v DESC) WHERE w < 100;
SQL
my @all = qw(t_id t_v t_list t_text t_own_id t_own_text t_u t_null t_part);
is($node->safe_psql('postgres', "SELECT string_agg(log, ' ') FROM unnest('{" . join(',', @all) . "}'::text[]) i, fpbtree_stats(i::regclass)"),
	'generic generic generic generic own own own own own', 'the logs');

my %load = (
	'INSERT INTO t (v, w, d, u) SELECT hashint4((random() * 1e6)::int), (random() * 1000)::int2, date \'2000-01-01\' + (random() * 3000)::int, gen_random_uuid() FROM generate_series(1, 40);' => 8,
	"\\set a random(1, 100000)\nUPDATE t SET v = v + 1, w = w - 1 WHERE id BETWEEN :a AND :a + 20;" => 6,
	"\\set a random(1, 100000)\nDELETE FROM t WHERE id BETWEEN :a AND :a + 60;" => 4,
	"\\set a random(1, 100000)\nDELETE FROM t WHERE id BETWEEN :a AND :a + 2000 AND random() < 0.9;" => 1,
	"\\set a random(1, 1000)\nBEGIN; UPDATE t SET d = d + 1 WHERE w = :a; ROLLBACK;" => 1,
	'VACUUM (SKIP_LOCKED) t;' => 1,
	"DROP INDEX IF EXISTS t_extra; CREATE INDEX t_extra ON t USING fpbtree (d, w);" => 0.02);
$load{$_} *= 50 for keys %load;

for my $round (1 .. $rounds)
{
	my $pgbench = start_load($node, 4, 60, %load);
	# Killed at another point each time.
	select undef, undef, undef, 2 + rand(2);
	cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}),
		'>', 2, "round $round: under load");
	kill_all($node);
	$pgbench->finish;
	$node->start;
	my @indexes = split /\n/, $node->safe_psql('postgres',
		q{SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid ORDER BY 1});
	cmp_ok(scalar(@indexes), '>=', scalar(@all), "round $round: the indexes are there");
	is_sound($node, "round $round", @indexes);
	answers_alike($node, "round $round",
		'SELECT v, w FROM t WHERE v BETWEEN -500000000 AND 500000000',
		'SELECT id FROM t WHERE id > 0',
		'SELECT w, d, id FROM t WHERE w BETWEEN 100 AND 300 AND d > date \'2003-01-01\'',
		'SELECT u FROM t WHERE u > \'80000000-0000-0000-0000-000000000000\'',
		'SELECT id FROM t WHERE nullif(w, w) IS NULL AND id % 10 = 3',
		'SELECT v FROM t WHERE w < 100 AND v > 0');
}

# What recovery left takes more work, and shrinks and grows again.
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 5 <> 0');
$node->safe_psql('postgres', 'VACUUM t');
is_sound($node, 'after the rounds', @all);
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, hashint4(i), i % 1000, NULL, md5(i::text)::uuid FROM generate_series(1, 30000) i');
is_sound($node, 'filled again', @all);
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|panicked at/, 'nobody panicked');
$node->stop;
done_testing();
