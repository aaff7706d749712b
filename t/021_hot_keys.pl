# The cache of hot keys' rows in shared memory: every lookup through it equals a sequential scan of the same snapshot, beside
# writers and VACUUM on the same handful of keys, in next to no memory, after a crash, on a standby and once that is promoted;
# whatever becomes of files; and it is left out where it has to be.
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
allow_in_place_tablespaces = on
CONF
$primary->start;
$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE hot (id serial, k int, w int8, u uuid, a int2, v int DEFAULT 0) WITH (autovacuum_enabled = off);
CREATE FUNCTION add(key int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO hot (k, w, u, a) SELECT key, key * 10000000000, md5(key::text)::uuid, key % 7
		WHERE (SELECT count(*) FROM hot WHERE k = key) < 3 $$;
SELECT count(add(i % 200)) FROM generate_series(1, 300) i;
CREATE INDEX hot_k ON hot USING fpbtree (k);
CREATE INDEX hot_w ON hot USING fpbtree (w DESC);
CREATE INDEX hot_u ON hot USING fpbtree (u);
CREATE INDEX hot_ka ON hot USING fpbtree (a, k, w);
CREATE INDEX hot_v ON hot USING fpbtree (v);
CREATE UNLOGGED TABLE hits (hits bigint, stale bigint);
VACUUM ANALYZE hot;
-- How many rows a key has and which, by each index and by none; and of some keys in one scan.
CREATE FUNCTION look_up(key int) RETURNS void LANGUAGE plpgsql SET jit = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_memoize = off AS $$
DECLARE
	condition text;
	rows bigint;
	ids numeric;
	found bigint;
	found_ids numeric;
BEGIN
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
	SELECT count(*), coalesce(sum(id), 0) INTO rows, ids FROM hot WHERE k = key;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
	FOREACH condition IN ARRAY '{k = $1,w = $1 * 10000000000,u = md5($1::text)::uuid,a = $1 % 7 AND k = $1 AND w = $1 * 10000000000}'::text[] LOOP
		EXECUTE 'SELECT count(*), coalesce(sum(id), 0) FROM hot WHERE ' || condition INTO found, found_ids USING key;
		IF (found, found_ids) <> (rows, ids) THEN
			RAISE EXCEPTION 'key %: % has % rows (%) instead of % (%)', key, condition, found, found_ids, rows, ids;
		END IF;
		EXECUTE 'SELECT count(*) FROM hot WHERE ' || condition INTO found USING key;
		IF found <> rows THEN
			RAISE EXCEPTION 'key %: % has % rows instead of %, by the index alone', key, condition, found, rows;
		END IF;
	END LOOP;
	FOR condition, found, found_ids IN SELECT g, h.n, h.ids FROM generate_series(key, key + 5) g,
		LATERAL (SELECT count(*) n, coalesce(sum(id), 0) ids FROM hot WHERE hot.k = g) h LOOP
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE 'SELECT count(*), coalesce(sum(id), 0) FROM hot WHERE k = $1' INTO rows, ids USING condition::int;
		IF (found, found_ids) <> (rows, ids) THEN
			RAISE EXCEPTION 'key % in a loop: % rows (%) instead of % (%)', condition, found, found_ids, rows, ids;
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION counts(index regclass) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', key_hits, key_misses, key_stale, key_evictions) FROM fpbtree_stat_hot(index) $$;
SQL

# What a session's lookups in an index did: hits, misses, stale, evictions.
sub counts
{
	my ($statements, $index, $database) = @_;
	my $out = $primary->safe_psql($database // 'postgres', <<"SQL");
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT FROM fpbtree_stat_hot_reset('$index');
$statements;
SELECT counts('$index');
SQL
	return (split /\n/, $out)[-1];
}

my $by_k = 'SELECT id FROM hot WHERE k = 77';
is(counts($by_k, 'hot_k'), '0 1 0 0', 'a key is looked up');
is(counts($by_k, 'hot_k'), '1 0 0 0', 'and found by another session');
is(counts("$by_k; $by_k;", 'hot_k'), '2 0 0 0', 'every time');
is(counts("SELECT id FROM hot WHERE k = 150; BEGIN; INSERT INTO hot (k) VALUES (150); SELECT id FROM hot WHERE k = 150; SELECT id FROM hot WHERE k = 150; ROLLBACK; SELECT id FROM hot WHERE k = 150", 'hot_k'), '2 1 1 0', 'until its leaf changes');
is(counts("BEGIN ISOLATION LEVEL SERIALIZABLE; $by_k; COMMIT", 'hot_k'), '0 0 0 0', 'not in serializable transactions');
is(counts("$by_k; SET enable_indexonlyscan = on; SELECT k FROM hot WHERE k = 77", 'hot_k'), '1 0 1 0', 'index-only scans, too');
is(counts('SET enable_indexscan = off; SET enable_bitmapscan = on; SELECT id FROM hot WHERE k = 77', 'hot_k'), '0 0 0 0', 'not for bitmaps');
is(counts('SELECT id FROM hot WHERE k BETWEEN 77 AND 78', 'hot_k'), '0 0 0 0', 'not for ranges');
is(counts('SELECT id FROM hot WHERE k IS NULL', 'hot_k'), '0 0 0 0', 'not for NULL');
is(counts("SELECT id FROM hot WHERE w = 770000000000; SELECT id FROM hot WHERE w = 770000000000::numeric", 'hot_w'), '0 1 0 0', 'in descending order');
is(counts(q{SELECT id FROM hot WHERE u = md5('77')::uuid}, 'hot_u'), '0 1 0 0', 'keys of 16 bytes');
is(counts(q{SELECT id FROM hot WHERE u = md5('77')::uuid}, 'hot_u'), '1 0 0 0', 'are kept');
is(counts("ALTER INDEX hot_k SET (hot_cache = off); $by_k; $by_k; ALTER INDEX hot_k RESET (hot_cache)", 'hot_k'), '0 0 0 0', 'an index may do without');
is(counts("$by_k; REINDEX INDEX hot_k; SELECT FROM fpbtree_stat_hot_reset('hot_k'); $by_k", 'hot_k'), '0 1 0 0', 'another file');
is($primary->safe_psql('postgres', q{SELECT key_bytes BETWEEN 64 AND 64 * 3 FROM fpbtree_stat_hot('hot_k')}), 't', 'takes a line or two');

$primary->safe_psql('postgres', 'CREATE TABLE apart (k int, EXCLUDE USING fpbtree (k WITH =)); INSERT INTO apart VALUES (1)');
is(counts('INSERT INTO apart VALUES (2); INSERT INTO apart VALUES (1) ON CONFLICT DO NOTHING', 'apart_k_excl'), '0 0 0 0', 'not for snapshots that see what is not committed');

# A key without rows, looked up before a node skips those of another one, does not get these.
$primary->safe_psql('postgres', 'CREATE TABLE skipped (k int) WITH (autovacuum_enabled = off); INSERT INTO skipped SELECT i FROM generate_series(1, 2000) i WHERE i <> 1;
	INSERT INTO skipped VALUES (2); CREATE INDEX skipped_k ON skipped USING fpbtree (k); VACUUM ANALYZE skipped');
my $skipping = 'SELECT p.k FROM (VALUES (1, 0), (2, 1)) v (key, n), LATERAL (SELECT k FROM skipped WHERE skipped.k = v.key OFFSET v.n LIMIT 1) p';
my $alone = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT k FROM skipped WHERE k = 3;';
like($primary->safe_psql('postgres', "$alone EXPLAIN $skipping"), qr/FpbtreeOffset/, 'rows of a key are skipped');
# Pages that had to be read make scans do more for each row.
$primary->restart;
is($primary->safe_psql('postgres', "$alone $skipping"), "3\n2", 'the others come');
is($primary->safe_psql('postgres', "$alone SELECT k FROM skipped WHERE k = 1"), '3', 'and not for the key before');

# Rows found dead are looked for in the leaf, which notes it.
$primary->safe_psql('postgres', 'CREATE TABLE dying (k int, t text) WITH (autovacuum_enabled = off); CREATE INDEX dying_k ON dying USING fpbtree (k);
	INSERT INTO dying SELECT i FROM generate_series(1, 1000) i; VACUUM ANALYZE dying;');
my $dying = 'SELECT t FROM dying WHERE k = 500';
is(counts("$dying; DELETE FROM dying WHERE k = 500", 'dying_k'), '1 1 0 0', 'a row is kept, and dies');
is(counts("$dying; $dying; $dying", 'dying_k'), '1 2 0 0', 'it is forgotten, and dead in its leaf');

# An index-only scan whose rows come from there holds VACUUM off their leaf as any other does: until it is over, no row that
# it has not returned yet becomes another.
$primary->safe_psql('postgres', 'CREATE TABLE pinned (k int) WITH (autovacuum_enabled = off); CREATE INDEX pinned_k ON pinned USING fpbtree (k);
	INSERT INTO pinned SELECT i / 2 FROM generate_series(1, 6000) i; VACUUM ANALYZE pinned; DELETE FROM pinned WHERE k = 100');
my $vacuumed = PostgreSQL::Test::Utils::tempdir . '/vacuumed';
my $vacuum = join ' ', 'psql', '-XAtq', '-h', $primary->host, '-p', $primary->port, '-c', '"VACUUM pinned"', 'postgres', ">$vacuumed", '2>&1', '&';
is($primary->safe_psql('postgres', <<"SQL"), "2500\n2500\n2500\n2500\n1 1 0 0\n2500\nBufferPin\n2500", 'VACUUM waits for an index-only scan');
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT k FROM pinned WHERE k = 2500; SELECT k FROM pinned WHERE k = 2500;
SELECT counts('pinned_k');
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM pinned WHERE k = 2500;
FETCH 1 FROM c;
\\! $vacuum
DO \$\$
BEGIN
	FOR i IN 1..400 LOOP
		PERFORM pg_stat_clear_snapshot();
		EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE wait_event IN ('BufferPin', 'BufferCleanup'));
		PERFORM pg_sleep(0.05);
	END LOOP;
END \$\$;
SELECT replace(wait_event, 'BufferCleanup', 'BufferPin') FROM pg_stat_activity WHERE query = 'VACUUM pinned';
FETCH ALL FROM c;
COMMIT;
SQL
$primary->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'VACUUM pinned' AND state = 'active')") or die 'VACUUM hangs';
is(slurp_file($vacuumed), '', 'and goes on then');

# What such a scan returns is what was stored, to the bit: zeros of both signs, NULLs, extremes, columns in either order.
$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE stored (id serial, f float8, d date, u uuid, a int4, b int8, c bool) WITH (autovacuum_enabled = off);
INSERT INTO stored (f, d, u, a, b, c)
	SELECT f, d, u, a, b, c FROM unnest('{0,-0,1.5,NaN,-Infinity,5e-324}'::float8[], '{infinity,-infinity,2000-01-01,4713-01-01 BC}'::date[],
		'{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}'::uuid[], '{1,1,-2147483648,NULL,2147483647}'::int[],
		'{7,NULL,-9223372036854775808,NULL,1}'::int8[], '{t,f,NULL}'::bool[]) x(f, d, u, a, b, c);
CREATE INDEX stored_f ON stored USING fpbtree (f); CREATE INDEX stored_f_desc ON stored USING fpbtree (f DESC);
CREATE INDEX stored_d ON stored USING fpbtree (d DESC); CREATE INDEX stored_u ON stored USING fpbtree (u DESC);
CREATE INDEX stored_ab ON stored USING fpbtree (a DESC, b NULLS FIRST, c); CREATE INDEX stored_ba ON stored USING fpbtree (b, a);
VACUUM ANALYZE stored;
SQL
my @stored = qw(stored_f stored_f_desc stored_d stored_u stored_ab stored_ba);
my $stored = join '', map { "SELECT $_;\n" } (
	(map { "f FROM stored WHERE f = '$_'" } qw(0 1.5 NaN -Infinity 5e-324)), (map { "d FROM stored WHERE d = '$_'" } 'infinity', '-infinity', '2000-01-01', '4713-01-01 BC'),
	(map { "u FROM stored WHERE u = '$_'" } '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
	'a, b, c FROM stored WHERE a = 1 AND b = 7 AND c', 'a, b, c FROM stored WHERE a = 1 AND b IS NULL AND NOT c', 'a, b, c FROM stored WHERE a IS NULL AND b IS NULL AND c IS NULL',
	'b, a FROM stored WHERE b IS NULL AND a = 1', 'b, a FROM stored WHERE a = -2147483648 AND b = -9223372036854775808', 'b, a FROM stored WHERE b = 1 AND a = 2147483647');
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET extra_float_digits = 3; ';
my @answers = map { $primary->safe_psql('postgres', $by_index . $stored) } 1 .. 3;
my $asked = $primary->safe_psql('postgres', $by_index . "SELECT FROM fpbtree_stat_hot_reset(i::regclass) FROM unnest('{@{[join ',', @stored]}}'::text[]) i;\n" =~ s/SELECT FROM fpb/SELECT fpb/r . $stored
	  . "SELECT sum(key_hits) >= 17, sum(key_misses) FROM unnest('{@{[join ',', @stored]}}'::regclass[]) i, fpbtree_stat_hot(i)");
like($asked, qr/\nt\|0$/, 'all of these are from the cache');
push @answers, $primary->safe_psql('postgres', "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET extra_float_digits = 3; $stored");
is_deeply(\@answers, [ ($answers[3]) x 4 ], 'as it was stored');
like($answers[0], qr/^(0\n-0|-0\n0)\n/, 'zeros of both signs');

# Copies of a database, and ways there and back, have the same pages in other files.
$primary->safe_psql('postgres', q{CREATE TABLESPACE elsewhere LOCATION ''});
$primary->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE postgres');
is(counts($by_k, 'hot_k', 'copy'), '0 1 0 0', 'a copy is another index');
for my $key (10 .. 20) { $primary->safe_psql('copy', "SELECT FROM look_up($key)"); }
for my $tablespace ('elsewhere', 'pg_default')
{
	$primary->safe_psql('postgres', "ALTER DATABASE copy SET TABLESPACE $tablespace");
	$primary->safe_psql('copy', 'SELECT look_up(k) FROM generate_series(10, 20) k');
	$primary->safe_psql('copy', "DELETE FROM hot WHERE k IN (12, 13); VACUUM hot; SELECT add(k) FROM generate_series(10, 20) k; UPDATE hot SET v = v + 1 WHERE k = 14")
	  for 1 .. 2;
	$primary->safe_psql('copy', 'SELECT look_up(k) FROM generate_series(10, 20) k') for 1 .. 2;
}
for my $tablespace ('elsewhere', 'pg_default')
{
	$primary->safe_psql('postgres', "ALTER INDEX hot_k SET TABLESPACE $tablespace; DELETE FROM hot WHERE k IN (12, 13)");
	$primary->safe_psql('postgres', 'VACUUM hot');
	$primary->safe_psql('postgres', 'SELECT add(k) FROM generate_series(10, 20) k; SELECT look_up(k) FROM generate_series(10, 20) k') for 1 .. 2;
}
$primary->safe_psql('postgres', 'DROP DATABASE copy');

# A database in the place of another, copied from the same.
for my $turn (1, 2)
{
	$primary->safe_psql('postgres', 'CREATE DATABASE again TEMPLATE postgres OID 50000');
	$primary->safe_psql('again', 'SELECT look_up(k) FROM generate_series(10, 20) k') for 1 .. 2;
	$primary->safe_psql('again', 'UPDATE hot SET v = v + 1 WHERE k BETWEEN 10 AND 20; VACUUM hot; SELECT look_up(k) FROM generate_series(10, 20) k; SELECT look_up(k) FROM generate_series(10, 20) k');
	$primary->safe_psql('postgres', 'DROP DATABASE again');
}

# Emptied, and emptied where it was made, in the same file.
is($primary->safe_psql('postgres', <<'SQL'), "1\n1\n0\n1\n0\n1\n1\n0\n1\n1", 'a table that is emptied');
SET enable_seqscan = off; SET enable_bitmapscan = off;
CREATE TABLE made (k int, t text); CREATE INDEX made_k ON made USING fpbtree (k); INSERT INTO made VALUES (1), (2);
SELECT count(t IS NULL) FROM made WHERE k = 1; SELECT count(t IS NULL) FROM made WHERE k = 1;
BEGIN; TRUNCATE made; SELECT count(t IS NULL) FROM made WHERE k = 1; ROLLBACK;
SELECT count(t IS NULL) FROM made WHERE k = 1;
TRUNCATE made; SELECT count(t IS NULL) FROM made WHERE k = 1;
BEGIN;
CREATE TABLE made_here (k int, t text); CREATE INDEX made_here_k ON made_here USING fpbtree (k); INSERT INTO made_here VALUES (1), (2);
SELECT count(t IS NULL) FROM made_here WHERE k = 1; SELECT count(t IS NULL) FROM made_here WHERE k = 1;
TRUNCATE made_here; SELECT count(t IS NULL) FROM made_here WHERE k = 1;
INSERT INTO made_here VALUES (2), (1); SELECT count(t IS NULL) FROM made_here WHERE k = 1;
COMMIT;
SELECT count(t IS NULL) FROM made_here WHERE k = 1;
SQL

# Cursors go to and fro in rows from the cache as they do in those from a leaf; a merge join comes back to them.
my $to_and_fro = join '', map { "DECLARE c SCROLL CURSOR FOR SELECT id FROM hot WHERE k = $_; "
	  . join('', map { "FETCH $_ c; " } ('1', '-1', '1', 'ALL', '-1', 'BACKWARD ALL', '2', '-2', 'ABSOLUTE -1', 'RELATIVE 0', 'FIRST', 'LAST', 'BACKWARD 1', 'FORWARD 1')) . 'CLOSE c; ' } (5, 105, 205);
my $merge = 'SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_mergejoin = on;'
  . ' SELECT g, h.id FROM (VALUES (5), (5), (105), (105)) g(g) JOIN hot h ON h.k = g AND h.k IN (5, 105); SELECT a.id, b.id FROM hot a JOIN hot b ON a.k = b.k WHERE a.k = 5 AND b.k = 5;';
my @seen = map { $primary->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN; $to_and_fro $merge COMMIT") } 1 .. 3;
$primary->safe_psql('postgres', 'ALTER INDEX hot_k SET (hot_cache = off)');
push @seen, $primary->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN; $to_and_fro $merge COMMIT");
$primary->safe_psql('postgres', 'ALTER INDEX hot_k RESET (hot_cache)');
is_deeply(\@seen, [ ($seen[3]) x 4 ], 'to and fro');

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

my $pick = "\\set k random(0, 30)\n";
my $glance = "${pick}BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT FROM look_up(:k);\nCOMMIT;\n";
# What one lookup keeps, the next finds, unless there was a change.
my $look = $glance =~ s/(SELECT.*\n)/$1$1$1/r;
my %writes = (
	"${pick}SELECT FROM add(:k);\n" => 20,
	"${pick}DELETE FROM hot WHERE ctid = ANY (ARRAY(SELECT ctid FROM hot WHERE k = :k LIMIT 1));\n" => 10,
	"${pick}UPDATE hot SET v = v + 1 WHERE k = :k;\n" => 10,
	"${pick}DELETE FROM hot WHERE k = :k;\nSELECT FROM add(:k);\n" => 5,
	"VACUUM (SKIP_LOCKED) hot;\n" => 20,
	"INSERT INTO hits SELECT sum(key_hits), sum(key_stale) FROM unnest('{hot_k,hot_w,hot_u,hot_ka}'::regclass[]) i, fpbtree_stat_hot(i);\n" => 2);

sub ends_well
{
	my ($node, $name, $load) = @_;
	ok($load->finish, $name) or diag(slurp_file($node->basedir . '/pgbench.log.err'));
	return;
}

sub is_whole
{
	my ($node, $name) = @_;
	is_sound($node, $name, 'hot_k', 'hot_w', 'hot_u', 'hot_ka');
	answers_alike($node, $name, 'SELECT id, k FROM hot WHERE k > 0 ORDER BY k, id', 'SELECT id FROM hot WHERE k = 5');
	return;
}

# As they all must end well, no lookup has differed.
my $readers = start_load($standby, 2, 18, $look => 1);
ends_well($primary, 'lookups beside many changes', start_load($primary, 6, 9, $glance => 60, %writes));
ends_well($primary, 'lookups beside changes', start_load($primary, 6, 9, $look => 100, %writes));
ends_well($standby, 'lookups on the standby', $readers);
is($primary->safe_psql('postgres', 'SELECT max(hits) > 200, max(stale) > 100 FROM hits'), 't|t', 'which found rows, and some that were none any more');
is($standby->safe_psql('postgres', <<'SQL'), '0 0 0 0', 'a standby looks at leaves');
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
SELECT FROM hot WHERE k = 5 AND v >= 0; SELECT counts('hot_k');
SQL
is_whole($primary, 'after the load');

# Hardly any memory: keys push each other out.
my $load = start_load($primary, 4, 20, $look => 100, %writes);
select undef, undef, undef, 2.5;
kill_all($primary);
$load->kill_kill;
$primary->append_conf('postgresql.conf', "fpbtree.hot_cache_size = '2kB'");
$primary->start;
is_whole($primary, 'after a crash');
ends_well($primary, 'lookups in hardly any memory', start_load($primary, 6, 8, $look => 100, %writes));
is($primary->safe_psql('postgres', q{SELECT sum(key_bytes) BETWEEN 64 AND 2048 FROM unnest('{hot_k,hot_w,hot_u,hot_ka,dying_k}'::regclass[]) i, fpbtree_stat_hot(i)}),
	't', 'no more than that');
is_whole($primary, 'in hardly any memory');

# Readers that stay while their standby becomes a primary, and writers that come then.
$readers = start_load($standby, 2, 14, $look => 1);
catch_up($primary, $standby);
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
ends_well($standby, 'lookups beside changes, once promoted', start_load($standby, 4, 8, $look => 100, %writes));
ends_well($standby, 'lookups across the promotion', $readers);
is_whole($standby, 'promoted');

# Settings.
like(($primary->psql('postgres', 'SET fpbtree.hot_cache_size = 0'))[2], qr/cannot be changed without restarting the server/, 'set at the start alone');
like(($primary->psql('postgres', q{ALTER INDEX hot_k SET (hot_cache = 'perhaps')}))[2], qr/invalid value for boolean option "hot_cache"/, 'on or off');
$primary->append_conf('postgresql.conf', 'fpbtree.hot_cache_size = 0');
$primary->restart;
is(counts("$by_k; $by_k", 'hot_k'), '0 0 0 0', 'turned off');
is_whole($primary, 'turned off');
$primary->append_conf('postgresql.conf', "fpbtree.hot_cache_size = '64MB'\nshared_preload_libraries = ''");
$primary->restart;
is(counts("$by_k; $by_k", 'hot_k'), '0 0 0 0', 'not preloaded');
server_is_clean($primary, 'primary');
server_is_clean($standby, 'standby');
$standby->stop;
$primary->stop;
done_testing();
