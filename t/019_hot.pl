# that all of them look up: every lookup through an index equals a sequential scan of the same snapshot. So on a standby,
# too, when that is promoted under its readers' hands, and after crashes.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'fpbtree'
shared_buffers = 16MB
autovacuum = off
synchronous_commit = off
hot_standby_feedback = on
wal_keep_size = 1GB
max_wal_size = 2GB
CONF
$primary->start;
$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE hot (id serial, k int, s text COLLATE "C" GENERATED ALWAYS AS ('key ' || k) STORED) WITH (autovacuum_enabled = off);
INSERT INTO hot (k) SELECT i % 12 FROM generate_series(1, 18000) i;
CREATE INDEX hot_k ON hot USING fpbtree (k);
CREATE INDEX hot_s ON hot USING fpbtree (s) INCLUDE (id);
CREATE UNIQUE INDEX hot_id ON hot USING fpbtree (id);
VACUUM ANALYZE hot;
CREATE FUNCTION look_up(key int) RETURNS void LANGUAGE plpgsql SET jit = off AS $$
DECLARE
	way text;
	condition text;
	rows bigint;
	ids numeric;
	same bool;
	last int;
BEGIN
	PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
	SELECT count(*), coalesce(sum(id), 0), max(id) INTO rows, ids, last FROM hot WHERE k = key;
	PERFORM set_config('enable_seqscan', 'off', true);
	FOREACH way IN ARRAY '{indexscan,bitmapscan}'::text[] LOOP
		PERFORM set_config('enable_' || way, 'on', true);
		FOREACH condition IN ARRAY '{k = $1,s = ''key '' || $1,k BETWEEN $1 AND $1}'::text[] LOOP
			EXECUTE 'SELECT (count(*), coalesce(sum(id), 0)) = ($2, $3) FROM hot WHERE ' || condition INTO same USING key, rows, ids;
			IF NOT same THEN
				RAISE EXCEPTION 'key %: % of % differs', key, way, condition;
			END IF;
		END LOOP;
		EXECUTE 'SELECT count(*) = count($1) FROM hot WHERE id = $1' INTO same USING last;
		IF NOT same THEN
			RAISE EXCEPTION 'row % of key % is not found: %', last, key, way;
		END IF;
		PERFORM set_config('enable_' || way, 'off', true);
	END LOOP;
END $$;
SQL
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

my $remember = "\\set size 12 * random(0, 2) * random(0, 100)\nSET fpbtree.descent_cache_size = :size;\n\\set k random(0, 11)\n";
my $look = "${remember}BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT look_up(:k);\nCOMMIT;\n";
my %writes = (
	"${remember}INSERT INTO hot (k) SELECT :k FROM generate_series(1, 60);\n" => 30,
	"${remember}DELETE FROM hot WHERE ctid = ANY (ARRAY(SELECT ctid FROM hot WHERE k = :k LIMIT 50));\n" => 30,
	"\\set k random(0, 11)\nDELETE FROM hot WHERE k = :k;\n" => 1,
	"VACUUM hot;\n" => 4);

sub is_whole
{
	my ($node, $name) = @_;
	is_sound($node, $name, 'hot_k', 'hot_s', 'hot_id');
	answers_alike($node, $name, 'SELECT k FROM hot WHERE k > 0 ORDER BY k', q{SELECT s FROM hot WHERE s > ''}, 'SELECT id FROM hot WHERE id > 0 ORDER BY id');
	return;
}

# As they all must end well, no lookup has differed.
my $load = start_load($primary, 5, 12, $look => 40, %writes);
my $readers = start_load($standby, 2, 12, $look => 1);
ok($readers->finish, 'lookups on the standby') or diag(slurp_file($standby->basedir . '/pgbench.log.err'));
ok($load->finish, 'lookups beside changes') or diag(slurp_file($primary->basedir . '/pgbench.log.err'));
cmp_ok($primary->safe_psql('postgres', 'SELECT sum(n_dead_tup + n_live_tup) FROM pg_stat_user_tables'), '>', 0, 'there were changes');
is_whole($primary, 'after the load');

for my $crash (1 .. 2)
{
	my $load = start_load($primary, 4, 20, $look => 40, %writes);
	select undef, undef, undef, 2.5;
	kill_all($primary);
	$load->kill_kill;
	$primary->start;
	is_whole($primary, "crash $crash");
}

# Readers that stay while their standby becomes a primary, and writers that come then.
$load = start_load($primary, 3, 4, $look => 40, %writes);
$readers = start_load($standby, 2, 14, $look => 1);
ok($load->finish, 'lookups after the crashes') or diag(slurp_file($primary->basedir . '/pgbench.log.err'));
catch_up($primary, $standby);
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
my $writers = start_load($standby, 3, 6, $look => 40, %writes);
ok($writers->finish, 'lookups beside changes, once promoted') or diag(slurp_file($standby->basedir . '/pgbench.log.err'));
ok($readers->finish, 'lookups across the promotion') or diag(slurp_file($standby->basedir . '/pgbench.log.err'));
is_whole($standby, 'promoted');
server_is_clean($primary, 'primary');
server_is_clean($standby, 'standby');
$standby->stop;
$primary->stop;
done_testing();
