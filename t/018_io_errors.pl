# A disk that cannot be read, cannot be written or is full: the server's own error each time, and nothing half done. The
# session goes on, and once the disk is well again everything is there.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $library = PostgreSQL::Test::Utils::tempdir() . '/io_faults.so';
my $source = dirname(abs_path($INC{'FpbtreeTest.pm'})) . '/io_faults.c';
plan skip_all => 'no C compiler makes the library that lets reads and writes fail'
  if system("cc -O2 -shared -fPIC -o '$library' '$source' 2>/dev/null") != 0;

my ($EIO, $ENOSPC) = (5, 28);
my $node = PostgreSQL::Test::Cluster->new('io_errors');
my $orders = $node->basedir . '/faults';
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 1MB
autovacuum = off
restart_after_crash = off
jit = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
log_statement = none
checkpoint_timeout = 1h
statement_timeout = 60s
CONF
$ENV{LD_PRELOAD} = $library;
$ENV{IO_FAULTS} = $orders;
$node->start;

# Makes calls fail: read, write or extend, with an error, after as many as are allowed, of files so named.
sub let_fail
{
	my ($what, $error, $allowed, $files) = @_;
	# In its place at once: a server process may look at any time.
	append_to_file("$orders.new", "$what $error $allowed $files\n");
	rename "$orders.new", $orders or die "$orders: $!";
	return;
}

sub recover { unlink $orders; return; }

# What a session says of statements while calls fail; after them they do not, and the same session goes on.
sub session
{
	my (@statements) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n" . join(";\n", @statements) . ";\n", on_error_stop => 0);
	isnt($status, 2, 'the session lives') or diag($err);
	return ($out, join(' ', $err =~ /(?:ERROR|FATAL|PANIC): +(\w{5})/g));
}

sub path_of { return $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_[0]')"); }

my @indexes = qw(g_v g_s t_v t_s t_n);
my @queries = ('SELECT v FROM t WHERE v > 100000 ORDER BY v', q{SELECT s FROM t WHERE s BETWEEN '3' AND '5'}, 'SELECT n FROM t WHERE n < 900 ORDER BY n DESC');
my $tables = <<'SQL';
CREATE TABLE t (id int, v int, s text COLLATE "C", n numeric);
INSERT INTO t SELECT i, hashint4(i), repeat(md5(i::text), 5), i / 7.0 FROM generate_series(1, 100000) i;
SQL
$node->safe_psql('postgres', "CREATE EXTENSION fpbtree; $tables CREATE INDEX g_v ON t USING fpbtree (v); CREATE INDEX g_s ON t USING fpbtree (s);");
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
$node->restart;
$node->safe_psql('postgres', 'CREATE INDEX t_v ON t USING fpbtree (v); CREATE INDEX t_s ON t USING fpbtree (s) INCLUDE (id); CREATE INDEX t_n ON t USING fpbtree (n);');
is($node->safe_psql('postgres', "SELECT string_agg(log, ' ') FROM unnest('{" . join(',', @indexes) . "}'::text[]) i, fpbtree_stats(i::regclass)"),
	'generic generic own own own', 'the logs');
$node->safe_psql('postgres', 'VACUUM ANALYZE t');

my $statements = 0;
# Every statement by itself, so that none is spared by what the one before has read.
sub fails
{
	my ($name, $state, @more) = @_;
	for my $statement (@more)
	{
		my (undef, $states) = session('SET enable_seqscan = off', 'SET enable_sort = off', $statement);
		is($states, $state, "$name: $statement");
		$statements++;
	}
	return;
}

# Reads.
for my $index (@indexes)
{
	my ($column) = $index =~ /_(\w)/;
	my $path = path_of($index);
	$node->restart;
	let_fail('read', $EIO, 0, $path);
	fails("$index cannot be read", '58030', "INSERT INTO t (v, s, n) VALUES (1, '1', 0.5)", "SELECT * FROM fpbtree_check('$index')",
		"SELECT * FROM fpbtree_stats('$index')", 'VACUUM (INDEX_CLEANUP on) t');
	# Only this index is there to be used.
	for my $scan ("SELECT count($column) FROM t WHERE $column > '4'", "SELECT $column FROM t ORDER BY $column DESC LIMIT 1")
	{
		my ($out, $states) = session('SET enable_seqscan = off', 'SET enable_sort = off', 'BEGIN', map({ "DROP INDEX $_" } grep { $_ ne $index } @indexes), $scan, 'ROLLBACK', 'SELECT 42');
		is($states, '58030', "$index cannot be read: $scan");
		like($out, qr/42$/, "$index cannot be read: the session goes on");
		$statements++;
	}
	recover();
	# And once more, later on the way.
	$node->restart;
	let_fail('read', $EIO, 7, $path);
	fails("$index cannot be read to its end", '58030', "SELECT * FROM fpbtree_check('$index')");
	recover();
	my ($out, $states) = session("INSERT INTO t (v, s, n) VALUES (1, '1', 0.5)", 'SELECT count(*) > 0 FROM t');
	is("$out$states", 't', "$index can be read again");
}
is_sound($node, 'can be read again', @indexes);

# The disk is full, after as many new pages as are allowed: splits of leaves and, with long keys, of their parents are cut
# off everywhere. Each of several sessions fails, then writes what it wanted.
my $from = 1_000_000;
for my $index (@indexes)
{
	for my $allowed (0 .. 9)
	{
		let_fail('extend', $ENOSPC, $allowed, path_of($index));
		my $rows = "generate_series($from, $from + 300000) i";
		my $insert = "INSERT INTO t SELECT i, hashint4(i), repeat(md5(i::text), 5), i / 7.0 FROM $rows";
		my (undef, $states) = session('BEGIN', "INSERT INTO t VALUES (-$from, -1, 'kept', 0)", 'SAVEPOINT s', $insert, 'ROLLBACK TO s', "INSERT INTO t VALUES (-$from, -2, 'kept', 0)", 'COMMIT');
		# The last insertion may need a page, too.
		like($states, qr/^53100/, "$index, $allowed more pages: the disk is full");
		$statements++;
		$from += 300_000;
	}
	is_sound($node, "$index had no room", $index);
	recover();
	my ($out, $states) = session("INSERT INTO t SELECT i, hashint4(i), repeat(md5(i::text), 5), i / 7.0 FROM generate_series($from, $from + 3000) i", 'SELECT 1');
	is("$out$states", '1', "$index has room again");
	is_sound($node, "$index has room again", $index);
	$node->safe_psql('postgres', 'VACUUM t');
	$from += 300_000;
}
answers_alike($node, 'there is room again', @queries);
is_sound($node, 'there is room again, vacuumed', @indexes);

# Pages that cannot be written: whoever needs their buffers fails, the index stays what it is.
for my $index (qw(g_v t_s))
{
	let_fail('write', $EIO, 0, path_of($index));
	my (undef, $states) = session("INSERT INTO t SELECT i, hashint4(i), repeat(md5(i::text), 5), i / 7.0 FROM generate_series($from, $from + 20000) i", 'CHECKPOINT');
	like($states, qr/^58030/, "$index cannot be written");
	$statements++;
	recover();
	$node->safe_psql('postgres', 'CHECKPOINT');
	is_sound($node, "$index can be written again", @indexes);
	$from += 30000;
}
answers_alike($node, 'can be written again', @queries);

# Builds on a full disk leave no file behind, whatever they were at.
my $place = $node->basedir . '/place';
mkdir $place or die "$place: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE place LOCATION '$place'");

sub files
{
	# The files of what was rolled back go with the next checkpoint.
	$node->safe_psql('postgres', 'CHECKPOINT');
	my ($database) = glob "$place/PG_*/*";
	my @files = defined $database ? map { s{.*/}{}r } grep { !/pgsql_tmp/ } glob("$database/*") : ();
	my @temporary = map { glob "$_/*" } glob("$place/PG_*/pgsql_tmp"), $node->data_dir . '/base/pgsql_tmp';
	return join ' ', sort(@files), @temporary;
}

for my $what ('v', 's', 's) INCLUDE (id', 'n')
{
	my $before = files();
	let_fail('extend', $ENOSPC, $_, "$place/"), fails("build on ($what), $_ more pages", '53100', "CREATE INDEX built ON t USING fpbtree ($what) TABLESPACE place"), recover()
	  for 0, 1, 2, 30;
	is(files(), $before, "build on ($what): no file is left");
	$node->safe_psql('postgres', "CREATE INDEX built ON t USING fpbtree ($what) TABLESPACE place");
	$before = files();
	isnt($before, '', "build on ($what): a file");
	let_fail('extend', $ENOSPC, $_, "$place/"), fails("build on ($what) again, $_ more pages", '53100', 'REINDEX INDEX built'), recover() for 0, 5;
	is(files(), $before, "build on ($what) again: no file is left, and the old one is there");
	is_sound($node, "build on ($what) again failed", 'built');

	# What does not fit memory is sorted on disk.
	my $sort = "SET maintenance_work_mem = '1MB'";
	let_fail('write', $ENOSPC, 3, 'pgsql_tmp');
	my (undef, $states) = session($sort, 'REINDEX INDEX built');
	is($states, '53100', "build on ($what): no room to sort");
	recover();
	(undef, $states) = session($sort, "SET temp_file_limit = '500kB'", 'REINDEX INDEX built');
	is($states, '53400', "build on ($what): temp_file_limit");
	let_fail('read', $EIO, 2, 'pgsql_tmp');
	(undef, $states) = session($sort, 'REINDEX INDEX built');
	is($states, '58030', "build on ($what): what was sorted cannot be read");
	recover();
	$statements += 3;
	is(files(), $before, "build on ($what): nothing of the sort is left");
	(undef, $states) = session($sort, 'REINDEX INDEX built', 'DROP INDEX g_v', 'CREATE INDEX g_v ON t USING fpbtree (v)');
	is($states, '', "build on ($what): it goes with room");
	is_sound($node, "build on ($what): it goes with room", 'built');
	$node->safe_psql('postgres', 'DROP INDEX built');
}
is(files(), '', 'no file is left');
server_is_clean($node, 'the server');

# The log has all that was done.
kill_all($node);
$node->start;
is_sound($node, 'after a crash', @indexes);
answers_alike($node, 'after a crash', @queries);
server_is_clean($node, 'the server, recovered');
note("$statements statements failed, 0 crashes");
done_testing();
