# An index's own log: which indexes have it, what the server shows of it, what becomes of them without the library, and
# what it makes possible on a standby.
# Needs: pg_walinspect
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $preload = "shared_preload_libraries = 'fpbtree'";
# As the library was built.
my $manager = $ENV{FPBTREE_RMGR_ID} // 128;
my $node = PostgreSQL::Test::Cluster->new('own_log');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "shared_buffers = 16MB\nautovacuum = off\nrestart_after_crash = off\n");
$node->start;

sub restart_with
{
	my ($line) = @_;
	$node->append_conf('postgresql.conf', $line);
	$node->restart;
	return;
}

sub log_of
{
	my (@indexes) = @_;
	return join ' ', map { $node->safe_psql('postgres', "SELECT log FROM fpbtree_stats('$_')") } @indexes;
}

$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE t (id int, v int, s text COLLATE "C");
INSERT INTO t SELECT i, hashint4(i), md5(i::text) FROM generate_series(1, 20000) i;
CREATE INDEX t_id ON t USING fpbtree (id);
CREATE INDEX t_v ON t USING fpbtree (v);
SQL
is(log_of('t_id', 't_v'), 'generic generic', 'not preloaded: the generic log');

# Preloading changes no index; building one does.
restart_with($preload);
$node->safe_psql('postgres', <<'SQL');
CREATE INDEX t_s ON t USING fpbtree (s);
CREATE UNLOGGED TABLE u (v int);
CREATE INDEX u_v ON u USING fpbtree (v);
CREATE EXTENSION pg_walinspect;
REINDEX INDEX t_v;
SQL
is(log_of(qw(t_id t_v t_s u_v)), 'generic own own own', 'preloaded: what is built has its own log');

# What pg_walinspect says.
my $before = $node->lsn('insert');
my $batches = $node->safe_psql('postgres', 'SHOW server_version_num') >= 170000;
$node->safe_psql('postgres', <<'SQL');
SET fpbtree.insert_batch = 0;
INSERT INTO t SELECT i, hashint4(i), md5(i::text) FROM generate_series(20001, 40000) i;
RESET fpbtree.insert_batch;
INSERT INTO t SELECT i, hashint4(i), md5(i::text) FROM generate_series(40001, 60000) i;
DELETE FROM t WHERE v BETWEEN 0 AND 1000000000;
VACUUM t;
CREATE TABLE thin (v int) WITH (autovacuum_enabled = off);
CREATE INDEX thin_v ON thin USING fpbtree (v);
INSERT INTO thin SELECT i FROM generate_series(1, 10000) i;
DELETE FROM thin WHERE v % 20 <> 0;
VACUUM thin;
CREATE TABLE flushed ();
SQL
my $after = $node->lsn('flush');
my $kinds = $node->safe_psql('postgres', <<"SQL");
SELECT string_agg(DISTINCT record_type, ' ' ORDER BY record_type), count(*) > 10000, bool_and(description ~ '^0: ')
FROM pg_get_wal_records_info('$before', '$after') WHERE resource_manager = 'fpbtree';
SQL
is($kinds, ($batches ? 'BATCH ' : '') . 'EDIT INSERT MERGE SPLIT UNLINK VACUUM|t|t', 'pg_walinspect names the records and describes them');
my $described = $node->safe_psql('postgres', <<"SQL");
SELECT record_type, description FROM pg_get_wal_records_info('$before', '$after')
WHERE resource_manager = 'fpbtree' AND record_type IN ('BATCH', 'INSERT', 'MERGE', 'SPLIT', 'VACUUM', 'UNLINK');
SQL
like($described, qr/^INSERT\|0: insert \d+\.\d+ lane 0x[0-9a-f]+ tid \(\d+,\d+\)$/m, 'an insertion');
like($described, qr/^SPLIT\|0: keep \d+ in \d+ nodes, right \d+,.*split begun; 1: new page/m, 'a split');
like($described, qr/^VACUUM\|0: remove \d+ of \d+ nodes$/m, 'a removal');
like($described, qr/^UNLINK\|.*deleted/m, 'a deletion');
like($described, qr/^MERGE\|.*entries given away, deleted.*page rewritten/m, 'a merge');
like($described, qr/^BATCH\|0: insert \d{2,} entries of a batch$/m, 'a batch') if $batches;
is_sound($node, 'merged', 'thin_v');
is_sound($node, 'preloaded', qw(t_id t_v t_s u_v));

# Without the library such an index is read, not written.
restart_with("shared_preload_libraries = ''");
answers_alike($node, 'preloaded no more', 'SELECT v FROM t WHERE v > -5', q{SELECT id, s FROM t WHERE s > 'd'});
for my $statement ('INSERT INTO t VALUES (1, 2, 3)', 'UPDATE t SET v = 1 WHERE id = 20', 'VACUUM (INDEX_CLEANUP on) t')
{
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 100 AND 200');
	my ($status, $out, $err) = $node->psql('postgres', $statement);
	like($err, qr/ERROR:  index "t_(v|s)" cannot be changed: fpbtree is not in "shared_preload_libraries"\n.*DETAIL:  .*\nHINT:  Add fpbtree to "shared_preload_libraries" and restart the server, or REINDEX the index\./, "preloaded no more: $statement is refused");
}
is($node->psql('postgres', "\\set VERBOSITY sqlstate\nINSERT INTO t VALUES (1, 2, 3)", stderr => \my $state), 3, 'refused');
like($state, qr/55000/, 'as object_not_in_prerequisite_state');
$node->safe_psql('postgres', 'INSERT INTO u SELECT generate_series(1, 5000); DELETE FROM u WHERE v % 3 = 0');
$node->safe_psql('postgres', 'VACUUM u');
$node->safe_psql('postgres', 'REINDEX INDEX t_v');
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY t_s');
is(log_of(qw(t_id t_v t_s u_v)), 'generic generic generic own', 'REINDEX gives it the generic log');
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1, 2, 3)');
$node->safe_psql('postgres', 'VACUUM t');
is_sound($node, 'rebuilt', qw(t_id t_v t_s u_v));

# Records that nobody can redo: the server says so, and comes back with the library.
restart_with($preload);
$node->safe_psql('postgres', 'REINDEX TABLE t');
is(log_of(qw(t_id t_v t_s)), 'own own own', 'and preloading its own again');
$node->safe_psql('postgres', 'CHECKPOINT');
$node->safe_psql('postgres', 'INSERT INTO t SELECT i, i, i FROM generate_series(1, 3000) i');
kill_all($node);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
is($node->start(fail_ok => 1), 0, 'recovery without the library fails');
like(slurp_file($node->logfile), qr/FATAL:  resource manager with ID $manager not registered/, 'and says why');
$node->append_conf('postgresql.conf', $preload);
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id = 77'), '2', 'with the library it comes back');
is_sound($node, 'recovered', qw(t_id t_v t_s u_v));
answers_alike($node, 'recovered', 'SELECT v FROM t WHERE v BETWEEN -5 AND 5000', q{SELECT s FROM t WHERE s < 'd'});

# An index-only scan on a standby has copied a leaf, with entries of rows that were dead before its snapshot. Were they
# removed, and the table's pages declared all-visible, it would return them: redo waits until it is done. Once the entries
# are removed where they are, once they go to another leaf first.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE dead (v int, other int) WITH (autovacuum_enabled = off, fillfactor = 50);
INSERT INTO dead SELECT i * 10, i FROM generate_series(1, 3000) i;
CREATE INDEX dead_v ON dead USING fpbtree (v);
SQL
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = -1\n");
$standby->start;
my $elsewhere = PostgreSQL::Test::Utils::tempdir . '/elsewhere';
my $deleted = 0;
for my $case ([ 'removed', '' ], [ 'moved and removed', 'INSERT INTO dead SELECT 1000 + i % 9000, -1 FROM generate_series(1, 2000) i WHERE i % 10 <> 0;' ])
{
	my ($name, $insertion) = @$case;
	$deleted++;
	$node->safe_psql('postgres', "DELETE FROM dead WHERE other % 4 = $deleted");
	# The table's pages are pruned now: redo of that would wait for the scan's pin on one of them.
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP off) dead');
	catch_up($node, $standby);
	unlink $elsewhere;
	append_to_file($elsewhere, "SET statement_timeout = '60s';\n$insertion\nVACUUM (INDEX_CLEANUP on) dead;\n\\echo done\n");
	my $psql = join ' ', 'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-f', $elsewhere, 'postgres', ">$elsewhere.out", '2>&1';
	my $scanned = 'SELECT v FROM dead WHERE v BETWEEN 500 AND 4000 AND v % 10 = 0 ORDER BY v';
	my $seen = $standby->safe_psql('postgres', <<"SQL");
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR $scanned;
FETCH 5 FROM c;
\\! $psql
DO \$\$
BEGIN
	FOR i IN 1..200 LOOP
		PERFORM pg_stat_clear_snapshot();
		EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event IN ('BufferPin', 'RecoveryConflictSnapshot', 'RecoveryConflictBufferPin', 'BufferCleanup'))
			OR pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn() AND i > 50;
		PERFORM pg_sleep(0.05);
	END LOOP;
END \$\$;
SELECT 'waits for ' || coalesce(wait_event, 'nothing') FROM pg_stat_activity WHERE backend_type = 'startup';
FETCH ALL FROM c;
COMMIT;
SQL
	is(slurp_file("$elsewhere.out"), "done\n", "$name: VACUUM is done with it");
	my $waited = $seen =~ s/^waits for (.*)\n//m ? $1 : '?';
	like($waited, qr/Pin|BufferCleanup/, "$name: redo waits for the scan's page");
	my $right = join "\n", grep { $_ % 10 == 0 && ($_ / 10) % 4 != 1 && ($deleted < 2 || ($_ / 10) % 4 != 2) } 500 .. 4000;
	is($seen, $right, "$name: no dead row comes back");
	catch_up($node, $standby);
	answers_alike($standby, "$name: afterwards", 'SELECT v FROM dead WHERE v > 100 ORDER BY v');
}

# Nothing is removed from the scan's leaf, but all that it has goes to the leaf behind it.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE merged (v int) WITH (autovacuum_enabled = off);
INSERT INTO merged SELECT i FROM generate_series(1, 20000) i;
CREATE INDEX merged_v ON merged USING fpbtree (v);
DELETE FROM merged WHERE v % 5 > 1;
VACUUM merged;
SQL
is($node->safe_psql('postgres', q{SELECT leaf_pages > 5, thin_pages FROM fpbtree_stats('merged_v')}), 't|0', 'leaves that are not thin');
$node->safe_psql('postgres', 'DELETE FROM merged WHERE v > 4000 AND v % 50 > 0');
# As above.
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP off) merged');
catch_up($node, $standby);
unlink $elsewhere;
append_to_file($elsewhere, "VACUUM (INDEX_CLEANUP on) merged;\nSELECT leaf_pages < 5 FROM fpbtree_stats('merged_v');\n");
my $merging = join ' ', 'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-f', $elsewhere, 'postgres', ">$elsewhere.out", '2>&1';
my $seen = $standby->safe_psql('postgres', <<"SQL");
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET fpbtree.custom_scans = off;
BEGIN;
DECLARE c CURSOR FOR SELECT v FROM merged WHERE v BETWEEN 1 AND 30 ORDER BY v;
FETCH 5 FROM c;
\\! $merging
DO \$\$
BEGIN
	FOR i IN 1..200 LOOP
		PERFORM pg_stat_clear_snapshot();
		EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event IN ('BufferPin', 'RecoveryConflictBufferPin', 'BufferCleanup'));
		PERFORM pg_sleep(0.05);
	END LOOP;
END \$\$;
SELECT 'waits for ' || coalesce(wait_event, 'nothing') FROM pg_stat_activity WHERE backend_type = 'startup';
FETCH ALL FROM c;
COMMIT;
SQL
is(slurp_file("$elsewhere.out"), "t\n", 'leaves are merged');
like($seen, qr/waits for .*(Pin|BufferCleanup)/, 'redo of a merge waits for the scan\'s page');
is($seen =~ s/^waits.*\n//mr, join("\n", grep { $_ % 5 < 2 } 1 .. 30), 'and the scan has its rows');
catch_up($node, $standby);
answers_alike($standby, 'merged', 'SELECT v FROM merged WHERE v > 0 ORDER BY v', 'SELECT v FROM merged WHERE v > 0 ORDER BY v DESC');

# Redo that makes another page of it than the primary did is noticed, if one asks for that.
# Images of whole pages would cover the difference up.
$node->append_conf('postgresql.conf', "wal_consistency_checking = 'all,fpbtree'\nfull_page_writes = off");
$node->restart;
$node->safe_psql('postgres', 'CREATE TABLE few (v int); INSERT INTO few SELECT generate_series(1, 100); CREATE INDEX few_v ON few USING fpbtree (v); INSERT INTO few VALUES (1000)');
$node->safe_psql('postgres', 'CHECKPOINT');
catch_up($node, $standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
my $file = $standby->data_dir . '/' . $standby->safe_psql('postgres', q{SELECT pg_relation_filepath('few_v')});
$standby->stop;
open my $page, '+<:raw', $file or die "$file: $!";
# The heap block of an entry: the root is block 1, and its last node's last tail stands before the zeroes.
seek $page, 8192, 0;
read $page, my $bytes, 8192;
substr($bytes, 0, 8000) =~ /^(.*[^\0])/s;
seek $page, 8192 + $+[1] - 1, 0;
print $page pack('C', ord(substr($bytes, $+[1] - 1, 1)) ^ 4);
close $page;
# Where pages have checksums, they would find it first.
$standby->append_conf('postgresql.conf', 'ignore_checksum_failure = on');
$standby->start;
$node->safe_psql('postgres', 'INSERT INTO few VALUES (0)');
my $noticed = 0;
for (1 .. 300)
{
	last if $noticed = slurp_file($standby->logfile) =~ /FATAL:  inconsistent page found, rel \S+, forknum 0, blkno 1/;
	select undef, undef, undef, 0.1;
}
ok($noticed, 'wal_consistency_checking finds a page that differs');
$standby->stop('immediate', fail_ok => 1);
server_is_clean($node, 'primary');
$node->stop;
done_testing();
