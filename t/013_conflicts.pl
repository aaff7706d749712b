# Queries on a standby against what its primary cleans up: they are cancelled where btree's are, with the same words, and
# for nothing else. And entries marked dead: no query on a standby marks any, nor believes a mark that came from the primary.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "shared_buffers = 16MB\nautovacuum = off\n");
$primary->start;
# Pages with room are not pruned by whoever reads them, which would take the dead rows away at another time.
$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE kept (v int) WITH (autovacuum_enabled = off, fillfactor = 50);
INSERT INTO kept SELECT generate_series(1, 300);
CREATE TABLE generic (v int) WITH (autovacuum_enabled = off, fillfactor = 50);
INSERT INTO generic SELECT generate_series(1, 300);
CREATE TABLE texts (v text COLLATE "C", n int) WITH (autovacuum_enabled = off, fillfactor = 50);
INSERT INTO texts SELECT lpad(i::text, 8, '0'), i FROM generate_series(1, 150) i;
ALTER TABLE kept SET (fillfactor = 100);
ALTER TABLE generic SET (fillfactor = 100);
ALTER TABLE texts SET (fillfactor = 100);
CREATE INDEX generic_v ON generic USING fpbtree (v);
SQL
$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
$primary->restart;
$primary->safe_psql('postgres', <<'SQL');
CREATE INDEX kept_v ON kept USING fpbtree (v);
CREATE INDEX texts_v ON texts USING fpbtree (v) INCLUDE (n);
SQL
my %method = (fpbtree => 'fpbtree (v)', texts => 'fpbtree ((v)) INCLUDE (n)', btree => 'btree (v)');
for my $name (sort keys %method)
{
	my $value = $name eq 'texts' ? "lpad(i::text, 8, '0')" : 'i';
	my $type = $name eq 'texts' ? 'text COLLATE "C"' : 'int';
	$primary->safe_psql('postgres', <<"SQL");
CREATE TABLE x_$name (v $type, n int, wide text DEFAULT repeat('x', 300)) WITH (autovacuum_enabled = off);
INSERT INTO x_$name SELECT $value, i FROM generate_series(1, 20000) i;
CREATE INDEX x_${name}_v ON x_$name USING $method{$name};
SQL
}
$primary->safe_psql('postgres', 'VACUUM (FREEZE, ANALYZE)');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = 0\nwal_receiver_status_interval = 1s\n");
$standby->start;
catch_up($primary, $standby);

my $planned = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;';

# A session on the standby that has begun an index-only scan, and stands in its first leaf.
sub scanning
{
	my ($query) = @_;
	like($standby->safe_psql('postgres', "$planned EXPLAIN $query"), qr/Index Only Scan/, "planned as an index-only scan: $query");
	my $session = $standby->background_psql('postgres', on_error_stop => 0);
	$session->query("\\set VERBOSITY verbose\n$planned BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE c CURSOR FOR $query");
	$session->query('FETCH 5 FROM c');
	return $session;
}

my %told;
for my $name (sort keys %method)
{
	my $query = "SELECT v FROM x_$name WHERE v > %s ORDER BY v";
	my @places = $name eq 'texts' ? (q{''}, q{'00012000'}) : (0, 12000);
	# Rows that its snapshot sees.
	$told{$name}{snapshot} = told_meanwhile($standby, scanning(sprintf $query, $places[0]), $primary, "DELETE FROM x_$name WHERE n BETWEEN 10 AND 5000", "VACUUM x_$name");
	catch_up($primary, $standby);
	# Rows that were dead before, of the same leaf but in other pages of the table than it has read: nothing but its pin of
	# the leaf is in the way.
	$primary->safe_psql('postgres', "DELETE FROM x_$name WHERE n BETWEEN 12040 AND 13000");
	catch_up($primary, $standby);
	$told{$name}{pin} = told_meanwhile($standby, scanning(sprintf $query, $places[1]), $primary, "VACUUM x_$name");
	catch_up($primary, $standby);
}
like($told{btree}{snapshot}, qr/^ERROR:  40001: canceling statement due to conflict with recovery\nDETAIL:  User query might have needed to see row versions that must be removed\./, 'a query of btree is cancelled');
like($told{btree}{pin}, qr/^ERROR:  40001: canceling statement due to conflict with recovery\nDETAIL:  User was holding shared buffer pin for too long\./, 'a pin, too');
for my $name ('fpbtree', 'texts')
{
	is($told{$name}{$_}, $told{btree}{$_}, "$name: cancelled as btree is: $_") for 'snapshot', 'pin';
}
my $conflicts = q{SELECT confl_snapshot || ' ' || confl_bufferpin FROM pg_stat_database_conflicts WHERE datname = 'postgres'};
ok($standby->poll_query_until('postgres', $conflicts, '3 3'), 'as many conflicts as queries were cancelled');
is_sound($standby, 'after the conflicts', 'x_fpbtree_v', 'x_texts_v');
answers_alike($standby, 'after the conflicts', 'SELECT v FROM x_fpbtree WHERE v > 0', q{SELECT v, n FROM x_texts WHERE v > '' ORDER BY v});

# The primary knows what the standby still reads: VACUUM leaves it, and nothing is cancelled.
$standby->append_conf('postgresql.conf', 'hot_standby_feedback = on');
$standby->reload;
for my $name ('fpbtree', 'texts')
{
	my $session = scanning("SELECT v FROM x_$name ORDER BY v");
	$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication') or die 'no feedback';
	$primary->safe_psql('postgres', "DELETE FROM x_$name WHERE n BETWEEN 14000 AND 19000");
	my $entries = $primary->safe_psql('postgres', "SELECT entries FROM fpbtree_stats('x_${name}_v')");
	$primary->safe_psql('postgres', "VACUUM x_$name");
	catch_up($primary, $standby);
	is($primary->safe_psql('postgres', "SELECT entries FROM fpbtree_stats('x_${name}_v')"), $entries, "$name, feedback: VACUUM removes nothing");
	my @rows = split /\n/, $session->query('FETCH ALL FROM c');
	is(scalar(@rows), 20000 - 4991 - 961 - 5, "$name, feedback: every row of the snapshot") or diag($session->{stderr});
	$session->query('COMMIT');
	$session->quit;
	$primary->poll_query_until('postgres', "SELECT backend_xmin IS NULL OR backend_xmin::text::bigint >= txid_snapshot_xmin(txid_current_snapshot()) FROM pg_stat_replication");
	$primary->safe_psql('postgres', "VACUUM x_$name");
	is($primary->safe_psql('postgres', "SELECT entries FROM fpbtree_stats('x_${name}_v')"), $entries - 5001, "$name, feedback: and all of it once the reader is done");
	catch_up($primary, $standby);
}
is($standby->safe_psql('postgres', $conflicts), '3 3', 'feedback: no conflict');
is_sound($standby, 'feedback', 'x_fpbtree_v', 'x_texts_v');

# Marks.
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = -1");
$standby->reload;
$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NULL FROM pg_stat_replication') or die 'still feedback';
my @marked = ([ 'kept', 'v BETWEEN 20 AND 120', 'v > 0', '-1' ], [ 'generic', 'v BETWEEN 20 AND 120', 'v > 0', '-1' ], [ 'texts', 'n BETWEEN 20 AND 120', q{v > ''}, q{'0', 0} ]);

sub marks
{
	my ($node, $table) = @_;
	return $node->safe_psql('postgres', "SELECT dead_entries FROM fpbtree_stats('${table}_v')");
}

my $reader = $standby->background_psql('postgres', on_error_stop => 0);
$reader->query("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
for my $case (@marked)
{
	my ($table, $condition, $all, $another) = @$case;
	my $scan = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM $table WHERE $all;";
	my $rows = $primary->safe_psql('postgres', "SELECT count(*) FROM $table");
	$primary->safe_psql('postgres', "DELETE FROM $table WHERE $condition");
	catch_up($primary, $standby);
	is($standby->safe_psql('postgres', $scan), $rows - 101, "$table: scanned on the standby") for 1 .. 3;
	is(marks($standby, $table), '0', "$table: the standby marks no entry");
	is($primary->safe_psql('postgres', $scan), $rows - 101, "$table: scanned on the primary") for 1 .. 2;
	is(marks($primary, $table), '101', "$table: the primary does");
	# The page goes over as a whole, with the marks in it.
	$primary->safe_psql('postgres', "CHECKPOINT; INSERT INTO $table VALUES ($another)");
	catch_up($primary, $standby);
	is(marks($standby, $table), '101', "$table: the marks arrive on the standby");
	my $seen = $reader->query("SELECT count(*) FROM $table WHERE $all");
	is($seen, $rows, "$table: and are not believed by who still sees the rows") or diag($reader->{stderr});
	answers_alike($standby, "$table: marked", "SELECT v FROM $table WHERE $all ORDER BY v");
}
$reader->query('COMMIT');
$reader->quit;
$primary->safe_psql('postgres', "VACUUM $_->[0]") for @marked;
catch_up($primary, $standby);
is_sound($standby, 'marks removed', map { "$_->[0]_v" } @marked);
is(marks($standby, $_->[0]), '0', "$_->[0]: no marks are left") for @marked;

# Once promoted, it marks what it finds dead, and believes it.
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
$standby->safe_psql('postgres', 'DELETE FROM kept WHERE v > 250');
$standby->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM kept WHERE v > 0') for 1 .. 2;
is(marks($standby, 'kept'), '50', 'promoted: it marks entries itself');
is_sound($standby, 'promoted', 'kept_v');
server_is_clean($primary, 'primary');
server_is_clean($standby, 'standby');
$standby->stop;
$primary->stop;
done_testing();
