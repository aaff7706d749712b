# pg_stat_fpbtree: what sessions count for each index is seen by others once their transactions have ended, one way or the
# other, is each database's own, is counted from zero again where that is asked for and allowed, and after a crash; it has
# room for as many indexes as a setting says, of which those that are dropped make room for others.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('node');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'fpbtree'
shared_buffers = 16MB
effective_io_concurrency = 64
autovacuum = off
fsync = off
jit = off
max_prepared_transactions = 2
restart_after_crash = on
fpbtree.custom_scans = off
CONF
$node->start;
my $version = $node->safe_psql('postgres', "SELECT current_setting('server_version_num')::int / 10000");

# Columns of an index's row.
sub stat_of
{
	my ($index, $columns, $database) = @_;
	return $node->safe_psql($database // 'postgres', "SELECT $columns FROM pg_stat_fpbtree WHERE indexrelname = '$index'");
}

my $counters = q{(SELECT string_agg(value, ' ' ORDER BY key) FROM jsonb_each_text(to_jsonb(pg_stat_fpbtree)) WHERE key !~ 'rel|name|reset')};
my $zeros = join ' ', (0) x 19;
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET max_parallel_workers_per_gather = 0;';

$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE SCHEMA elsewhere;
CREATE TABLE elsewhere.rows (k int, t text COLLATE "C", filler text) WITH (autovacuum_enabled = off);
CREATE INDEX rows_k ON elsewhere.rows USING fpbtree (k);
CREATE INDEX rows_i ON elsewhere.rows USING fpbtree ((ARRAY[t]));
CREATE TABLE few (k int);
CREATE INDEX few_k ON few USING fpbtree (k);
CREATE INDEX rows_b ON elsewhere.rows (filler);
SQL
is($node->safe_psql('postgres', q{SELECT string_agg(concat_ws(' ', schemaname, relname, indexrelname, relid = (schemaname || '.' || relname)::regclass,
	indexrelid = (schemaname || '.' || indexrelname)::regclass), ', ' ORDER BY indexrelname) FROM pg_stat_fpbtree}),
	'public few few_k t t, elsewhere rows rows_i t t, elsewhere rows rows_k t t', 'a row for each index of fpbtree');
is(stat_of('few_k', "$counters, stats_reset IS NULL"), "$zeros|t", 'nothing was counted');

# Splits, and batches where there are some.
$node->safe_psql('postgres', q{INSERT INTO elsewhere.rows SELECT hashint4(i) % 1000000, i, repeat('x', 300) FROM generate_series(1, 30000) i});
is(stat_of('rows_k', 'leaf_splits > 20, inner_splits, leaves_merged, leaves_deleted'), 't|0|0|0', 'splits');
is(stat_of('rows_k', 'batches > 0, batch_entries > 25000'), $version >= 17 ? 't|t' : 'f|f', 'batches');
is(stat_of('rows_i', 'compare_calls > 1000, compare_guesses >= compare_wrong_guesses'), 't|t', 'comparisons');
is(stat_of('few_k', $counters), $zeros, 'of others nothing');
# More than a page: else no leaf is looked for.
$node->safe_psql('postgres', 'INSERT INTO few SELECT generate_series(1, 3000)');
my $splits = stat_of('rows_k', 'leaf_splits');
$node->psql('postgres', 'BEGIN; INSERT INTO elsewhere.rows SELECT i, i FROM generate_series(2000000, 2005000) i; ROLLBACK');
cmp_ok(stat_of('rows_k', 'leaf_splits'), '>', $splits, 'what is rolled back has happened');

# Lookups: once the transaction has ended, however.
sub lookups { return stat_of('few_k', 'hits + misses + stale + key_hits') }
$node->safe_psql('postgres', 'VACUUM ANALYZE few; VACUUM ANALYZE elsewhere.rows');
my $before = lookups();
my $look = 'SELECT count(*) FROM few WHERE k = 1;' x 5;
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_until(qr/begun/, "$by_index BEGIN; $look\n\\echo begun\n");
is(lookups(), $before, 'a transaction that goes on');
$session->query_until(qr/ended/, "COMMIT;\n\\echo ended\n");
is(lookups() - $before, 5, 'committed');
$session->query_until(qr/ended/, "BEGIN; SAVEPOINT s; $look ROLLBACK TO s; $look ROLLBACK;\n\\echo ended\n");
is(lookups() - $before, 15, 'rolled back');
$session->query_until(qr/ended/, "BEGIN; $look SELECT 1 / 0; COMMIT;\n\\echo ended\n");
is(lookups() - $before, 20, 'failed');
$session->query_until(qr/ended/, "BEGIN; $look PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p';\n\\echo ended\n");
is(lookups() - $before, 25, 'prepared');
$session->query_until(qr/ended/, "SELECT FROM fpbtree_stat_hot_reset('few_k'); $look\n\\echo ended\n");
is(lookups() - $before, 30, 'counted from zero by the session');
$session->query_until(qr/begun/, "BEGIN; $look\n\\echo begun\n");
$session->quit;
$node->poll_query_until('postgres', "SELECT hits + misses + stale + key_hits = $before + 35 FROM pg_stat_fpbtree WHERE indexrelname = 'few_k'");
is(lookups() - $before, 35, 'ended in a transaction');

# Pages asked for ahead; and parallel workers count, too.
$node->restart;
is(stat_of('rows_k', $counters), $zeros, 'a server that starts counts from zero');
my $scan = 'SELECT count(t) FROM elsewhere.rows WHERE k < 1000000000';
$node->safe_psql('postgres', "$by_index $scan");
is(stat_of('rows_k', 'prefetch_requested > 100, prefetch_used BETWEEN 1 AND prefetch_requested'), 't|t', 'pages asked for ahead');
$node->restart;
my $parallel = $by_index =~ s/gather = 0/gather = 2/r
  . 'SET min_parallel_index_scan_size = 0; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET parallel_leader_participation = off;';
like($node->safe_psql('postgres', "$parallel EXPLAIN (ANALYZE, COSTS OFF) $scan"), qr/Workers Launched: 2/, 'workers');
is(stat_of('rows_k', 'prefetch_requested > 100'), 't', 'which ask ahead');

# What VACUUM makes of leaves.
$node->safe_psql('postgres', 'DELETE FROM elsewhere.rows WHERE k % 5 <> 0 AND k < 2000000 OR k BETWEEN 100000 AND 500000');
$node->safe_psql('postgres', 'VACUUM elsewhere.rows');
is(stat_of('rows_k', 'leaves_merged > 5, leaves_deleted > 5'), 't|t', 'leaves that are gone');

# Reset.
$node->safe_psql('postgres', "$by_index SELECT FROM few WHERE k = 1");
$node->safe_psql('postgres', 'CREATE ROLE reader LOGIN');
my $as_reader = sub { my ($sql) = @_; return join '/', $node->psql('postgres', "SET ROLE reader; $sql") };
like($as_reader->('SELECT sum(leaves_merged) > 5 FROM pg_stat_fpbtree'), qr{^0/t/}, 'everybody may look');
like($as_reader->('SELECT fpbtree_stat_reset()'), qr/permission denied for function fpbtree_stat_reset/, 'not everybody may reset all');
like($as_reader->(q{SELECT fpbtree_stat_reset('few_k')}), qr/permission denied for function fpbtree_stat_reset/, 'or one');
$node->safe_psql('postgres', 'GRANT EXECUTE ON FUNCTION fpbtree_stat_reset(regclass) TO reader');
like($as_reader->(q{SELECT fpbtree_stat_reset('few_k')}), qr{^0//}, 'who was told may');
is(stat_of('few_k', "$counters, stats_reset > now() - interval '1 minute'"), "$zeros|t", 'one index from zero');
is(stat_of('rows_k', 'leaves_merged > 5, stats_reset IS NULL'), 't|t', 'but no other');
like(join('', $node->psql('postgres', q{SELECT fpbtree_stat_reset('elsewhere.rows_b')})), qr/"rows_b" is not an fpbtree index/, 'not of btree');
like(join('', $node->psql('postgres', q{SELECT fpbtree_stat_reset(1)})), qr/there is no relation with OID 1/, 'not of none');

# Of each database by itself.
$node->safe_psql('postgres', 'CREATE DATABASE other TEMPLATE postgres');
is(stat_of('rows_k', "$counters, stats_reset IS NULL", 'other'), "$zeros|t", 'a copy is another database');
$node->safe_psql('other', "$by_index SELECT FROM few WHERE k = 1; SELECT fpbtree_stat_reset()");
is(stat_of('rows_k', 'leaves_merged > 5, stats_reset IS NULL'), 't|t', 'which is reset by itself');
is(stat_of('few_k', "hits + misses, stats_reset > now() - interval '1 minute'", 'other'), '0|t', 'with all its indexes');
is(stat_of('rows_k', "stats_reset > now() - interval '1 minute'", 'other'), 't', 'also those that have counted nothing');
$node->safe_psql('postgres', 'SELECT fpbtree_stat_reset()');
is(stat_of('rows_k', $counters), $zeros, 'all from zero');

# A crash.
$node->safe_psql('postgres', "$by_index SELECT FROM few WHERE k = 1");
isnt(lookups(), 0, 'before a crash');
kill_all($node);
$node->start;
is(stat_of('few_k', "$counters, stats_reset IS NULL"), "$zeros|t", 'after it');
# One process that dies has all others start anew.
$node->safe_psql('postgres', "$by_index SELECT FROM few WHERE k = 1");
isnt(lookups(), 0, 'counted again');
$session = $node->background_psql('postgres', on_error_stop => 0);
my ($pid) = $session->query_until(qr/pid \d+\n/, "SELECT 'pid ' || pg_backend_pid();\n") =~ /pid (\d+)/;
my $log = -s $node->logfile;
kill 'KILL', $pid;
$node->wait_for_log(qr/reinitializing.*ready to accept connections/s, $log);
$log = -s $node->logfile;
is(lookups(), 0, 'from zero');
$node->safe_psql('postgres', "$by_index SELECT FROM few WHERE k = 1");
is(lookups(), 1, 'after the crash of a session');
$session->{run}->finish;

# Room for two.
$node->append_conf('postgresql.conf', 'fpbtree.stat_indexes = 2');
$node->restart;
$node->safe_psql('postgres', "CREATE TABLE t$_ (k int); CREATE INDEX i$_ ON t$_ USING fpbtree (k); INSERT INTO t$_ SELECT generate_series(1, 3000)") for 1 .. 4;
sub look_at { my ($n) = @_; return "$by_index SELECT FROM t$n WHERE k = 1;" }
my $counted = q{SELECT string_agg(indexrelname, ' ' ORDER BY indexrelname) FROM pg_stat_fpbtree WHERE hits + misses + key_hits > 0};
$node->safe_psql('postgres', look_at($_)) for 1 .. 3;
is($node->safe_psql('postgres', $counted), 'i1 i2', 'no room for the third');
my @said = substr(slurp_file($node->logfile), $log) =~ /WARNING:  (pg_stat_fpbtree .*)/g;
is("@said", 'pg_stat_fpbtree has no room for more than 2 indexes', 'which is said once');
is($node->safe_psql('postgres', 'SELECT indexes, most, refused > 0 FROM fpbtree_stat_room()'), '2|2|t', 'and can be asked');
$node->safe_psql('postgres', 'DROP TABLE t1');
$node->safe_psql('postgres', $counted);
$node->safe_psql('postgres', look_at(3));
is($node->safe_psql('postgres', $counted), 'i2 i3', 'the place of one that was dropped');
$node->safe_psql('postgres', 'BEGIN; DROP TABLE t2; ROLLBACK; DROP TABLE t3');
$node->safe_psql('postgres', 'CREATE TABLE t5 AS SELECT generate_series(1, 3000) k; CREATE INDEX i5 ON t5 USING fpbtree (k)');
$node->safe_psql('postgres', look_at(5));
is($node->safe_psql('postgres', $counted), 'i2 i5', 'for one that is new');
$node->safe_psql('postgres', 'DROP TABLE t5; SELECT fpbtree_stat_reset()');
$node->safe_psql('postgres', look_at(4));
is($node->safe_psql('postgres', $counted), '', 'none: that the database was reset takes a place');

# Where nothing is counted.
$node->append_conf('postgresql.conf', 'fpbtree.stat_indexes = 0');
$node->restart;
is(stat_of('few_k', 'hits IS NULL, batches IS NULL, stats_reset IS NULL'), 't|t|t', 'turned off');
like(join('', $node->psql('postgres', 'SELECT fpbtree_stat_reset()')), qr/nothing is counted for pg_stat_fpbtree/, 'nothing to reset');
like(join('', $node->psql('postgres', 'SET fpbtree.stat_indexes = 5')), qr/cannot be changed without restarting the server/, 'set at the start alone');
$node->append_conf('postgresql.conf', "fpbtree.stat_indexes = 1000\nshared_preload_libraries = ''");
$node->restart;
$node->safe_psql('postgres', "$by_index SELECT FROM few WHERE k = 1");
is(stat_of('few_k', 'hits IS NULL, batches IS NULL, stats_reset IS NULL'), 't|t|t', 'not preloaded');
server_is_clean($node, 'node', $log);
$node->stop;
done_testing();
