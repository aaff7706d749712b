# Queues: rows come at one end and go at the other. An index on them, and the way to its first row, stay as short as the
# queue is, on a standby and after a crash, too.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "shared_buffers = 128MB\nautovacuum = off\nsynchronous_commit = off\nmax_wal_size = 2GB\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION fpbtree; CREATE TABLE generic (n int); CREATE INDEX generic_n ON generic USING fpbtree (n) WITH (fillfactor = 10)');
$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
$primary->restart;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', 'CREATE TABLE own (n int); CREATE INDEX own_n ON own USING fpbtree (n) WITH (fillfactor = 10)');

# Puts so many rows behind the others, takes those away that were there, and says how large the index is.
my %last = (own => 0, generic => 0);
sub turn_over
{
	my ($table, $rows) = @_;
	my ($from, $to) = ($last{$table} + 1, $last{$table} + $rows);
	$primary->safe_psql('postgres', "INSERT INTO $table SELECT generate_series($from, $to)");
	$primary->safe_psql('postgres', "DELETE FROM $table WHERE n < $from");
	$primary->safe_psql('postgres', "VACUUM $table");
	$last{$table} = $to;
	return $primary->safe_psql('postgres', "SELECT pg_relation_size('${table}_n') / 8192");
}

# How many pages the first row takes.
sub way
{
	my ($node, $table) = @_;
	my $explain = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT n FROM $table ORDER BY n LIMIT 1;";
	# The first time it is the catalogs' pages, too.
	my @plans = split /^(?=Limit)/m, $node->safe_psql('postgres', "SET enable_seqscan = off; $explain $explain");
	my ($hit, $read) = (0, 0);
	$hit = $1 if $plans[-1] =~ /shared hit=(\d+)/;
	$read = $1 if $plans[-1] =~ /shared (?:hit=\d+ )?read=(\d+)/;
	return $hit + $read;
}

# Enough rows for more than one page above the leaves.
my $rows = 700_000;
for my $table ('own', 'generic')
{
	my @pages = map { turn_over($table, $rows) } 1 .. 4;
	note("$table: pages after each turnover: @pages");
	my ($inner) = $primary->safe_psql('postgres', "SELECT inner_pages FROM fpbtree_stats('${table}_n')");
	cmp_ok($inner, '>=', 2, "$table: the index has several inner pages");
	cmp_ok($inner, '<=', 4, "$table: but none is left of what was");
	cmp_ok($pages[3], '<=', 1.1 * $pages[1], "$table: the index stays as large as the queue");
	cmp_ok(way($primary, $table), '<=', 12, "$table: the first row is near");
}
for my $turn (1 .. 100)
{
	turn_over('own', 8_000);
	next unless $turn % 25 == 0;
	my ($pages, $leaves, $inner) = split /\|/, $primary->safe_psql('postgres', "SELECT pg_relation_size('own_n') / 8192, leaf_pages, inner_pages FROM fpbtree_stats('own_n')");
	cmp_ok($leaves, '<', 200, "turnover $turn: $leaves leaves");
	cmp_ok($inner, '<=', 4, "turnover $turn: $inner inner pages");
	cmp_ok(way($primary, 'own'), '<=', 12, "turnover $turn: the first row is near");
}
is_sound($primary, 'primary', 'own_n', 'generic_n');
answers_alike($primary, 'primary', 'SELECT n FROM own WHERE n > 0 ORDER BY n', 'SELECT n FROM generic WHERE n > 0');
catch_up($primary, $standby);
is_sound($standby, 'standby', 'own_n', 'generic_n');
cmp_ok(way($standby, 'own'), '<=', 12, 'standby: the first row is near');
answers_alike($standby, 'standby', 'SELECT n FROM own WHERE n > 0 ORDER BY n', 'SELECT n FROM generic WHERE n > 0');

# Pages that were inner ones become others once nobody can be on the way to them.
my $reader = $primary->background_psql('postgres', on_error_stop => 0);
$reader->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM own');
$primary->safe_psql('postgres', "INSERT INTO own SELECT generate_series($last{own} + 1, $last{own} + $rows)");
$last{own} += $rows;
$reader->query('COMMIT');
$reader->quit;
my @again = map { turn_over('own', $rows) } 1 .. 4;
cmp_ok($again[3], '<=', 1.1 * $again[2], 'and pages are used again');

kill_all($primary);
$primary->start;
is_sound($primary, 'after a crash', 'own_n', 'generic_n');
answers_alike($primary, 'after a crash', 'SELECT n FROM own WHERE n > 0 ORDER BY n');
server_is_clean($primary, 'primary');
server_is_clean($standby, 'standby');
$standby->stop;
$primary->stop;
done_testing();
