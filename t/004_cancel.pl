# Statements that are cancelled or fail: an error with all its fields, nothing lost, nothing leaked.
use strict;
use warnings;
use IPC::Run ();
use Time::HiRes qw(time);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('cancel');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nrestart_after_crash = off\njit = off\nmax_parallel_workers_per_gather = 0\nlog_statement = none\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE big (id int, v int);
INSERT INTO big SELECT i, hashint4(i) FROM generate_series(1, 1500000) i;
SQL

# Is the statement cancelled, and soon? The time allowed is generous: the machine may be busy.
sub cancelled
{
	my ($name, $timeout, $statement, $settings) = @_;
	my $start = time;
	my ($status, undef, $err) = $node->psql('postgres', ($settings // '') . "\\set VERBOSITY sqlstate\nSET statement_timeout = '$timeout';\n$statement");
	my $took = time - $start;
	like($err, qr/ERROR:  57014/, "$name: cancelled");
	cmp_ok($took, '<', 10, "$name: soon");
	return;
}

# Build.
cancelled('create index', '40ms', 'CREATE INDEX big_v ON big USING fpbtree (v)');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'big_v'}), '0', 'create index: nothing is left');
cancelled('build with little memory', '80ms', 'CREATE INDEX big_v ON big USING fpbtree (v)', "SET maintenance_work_mem = '1MB';\n");
my (undef, undef, $limited) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET maintenance_work_mem = '1MB';\nSET temp_file_limit = '1MB';\nCREATE INDEX big_v ON big USING fpbtree (v)");
like($limited, qr/ERROR:  53400/, 'a build keeps to temp_file_limit');
# On a busy machine the first ones may be cancelled before there is an index at all.
for my $timeout (40, 80, 160, 320, 640)
{
	cancelled('create index concurrently', "${timeout}ms", 'CREATE INDEX CONCURRENTLY big_v ON big USING fpbtree (v)');
	last if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'big_v'});
}
is($node->safe_psql('postgres', q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'big_v'::regclass}), 'f', 'create index concurrently: an invalid index is left, as of btree');
$node->safe_psql('postgres', 'DROP INDEX big_v');
$node->safe_psql('postgres', 'CREATE INDEX big_v ON big USING fpbtree (v)');
cancelled('reindex', '40ms', 'REINDEX INDEX big_v');
is_sound($node, 'after cancelled builds', 'big_v');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_tmpdir()}), '0', 'no temporary files are left');

# Scans of each kind.
my $count = 'SELECT count(*) FROM big a JOIN generate_series(1, 100) g ON true WHERE a.v > -2000000000 + g';
cancelled("$_ scan", '100ms', $count, {
	'index' => "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;\n",
	'index-only' => "SET enable_seqscan = off; SET enable_bitmapscan = off;\n",
	'bitmap' => "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;\n"}->{$_})
  for 'index', 'index-only', 'bitmap';
cancelled('probes', '100ms', 'SELECT count(*) FROM big o JOIN big i ON i.v = o.id', "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; SET enable_material = off; SET enable_memoize = off;\n");
cancelled('check', '30ms', q{SELECT * FROM fpbtree_check('big_v', true)});
answers_alike($node, 'after cancelled scans', 'SELECT v FROM big WHERE v BETWEEN 0 AND 20000000');

# Inserts.
cancelled('insert', '150ms', 'INSERT INTO big SELECT i, hashint4(i) FROM generate_series(1, 3000000) i');
cancelled('insert of one value', '150ms', 'INSERT INTO big SELECT i, 5 FROM generate_series(1, 3000000) i');
is($node->safe_psql('postgres', 'SELECT count(*) FROM big'), '1500000', 'insert: no row is left');
is_sound($node, 'after cancelled inserts', 'big_v');
$node->safe_psql('postgres', 'VACUUM big');
is_sound($node, 'their remains vacuumed', 'big_v');

# VACUUM, slowed down and cancelled while it is at the index: most of the heap it may skip.
$node->safe_psql('postgres', 'DELETE FROM big WHERE id <= 3000');
my @settings = map { ('-c', "SET vacuum_cost_$_") } 'delay = 20', 'limit = 10', 'page_dirty = 1';
my $vacuum = IPC::Run::start(
	[
		'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-h', $node->host, '-p', $node->port, @settings,
		'-c', 'VACUUM (INDEX_CLEANUP on) big', 'postgres'
	],
	'<', \undef, '>', \my $vacuum_out, '2>', \my $vacuum_err);
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE phase = 'vacuuming indexes')}), 'vacuum is at the index');
my $start = time;
$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_vacuum');
$vacuum->finish;
like($vacuum_err, qr/ERROR:  57014/, 'vacuum: cancelled');
cmp_ok(time - $start, '<', 10, 'vacuum: soon');
is_sound($node, 'after a cancelled vacuum', 'big_v');
answers_alike($node, 'after a cancelled vacuum', 'SELECT v FROM big WHERE v BETWEEN -20000000 AND 0', 'SELECT id FROM big WHERE v = 77');
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP on) big');
is_sound($node, 'vacuumed at last', 'big_v');
is($node->safe_psql('postgres', q{SELECT entries FROM fpbtree_stats('big_v')}), '1497000', 'vacuumed at last: all gone');

# An error raised beneath the index keeps its fields: the same as with btree.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE raising (id int, v int);
INSERT INTO raising SELECT i, i FROM generate_series(1, 100) i;
CREATE FUNCTION touchy(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
  IF v = 50 THEN
    RAISE EXCEPTION 'fifty is refused' USING ERRCODE = '23X99', DETAIL = 'It is what it is.', HINT = 'Try forty-nine.',
      TABLE = 'a table', COLUMN = 'a column', CONSTRAINT = 'a constraint', SCHEMA = 'a schema', DATATYPE = 'a type';
  END IF;
  RETURN v;
END $$;
CREATE FUNCTION fields(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  a text; b text; c text; d text; e text; f text; g text; h text; i text; j text;
BEGIN
  EXECUTE statement;
  RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS a = RETURNED_SQLSTATE, b = MESSAGE_TEXT, c = PG_EXCEPTION_DETAIL, d = PG_EXCEPTION_HINT,
    e = PG_EXCEPTION_CONTEXT, f = TABLE_NAME, g = COLUMN_NAME, h = CONSTRAINT_NAME, i = SCHEMA_NAME, j = PG_DATATYPE_NAME;
  RETURN array_to_string(ARRAY[a, b, c, d, e, f, g, h, i, j], ' | ');
END $$;
SQL
my %told;
for my $method ('btree', 'fpbtree')
{
	push @{ $told{$method} }, $node->safe_psql('postgres', "SELECT fields('CREATE INDEX raising_idx ON raising USING $method (touchy(v))')");
	$node->safe_psql('postgres', "CREATE INDEX raising_idx ON raising USING $method (touchy(v)) WHERE v <> 50");
	$node->safe_psql('postgres', 'ALTER TABLE raising ADD w int');
	$node->safe_psql('postgres', "DROP INDEX raising_idx; DELETE FROM raising WHERE v = 50; CREATE INDEX raising_idx ON raising USING $method (touchy(v))");
	push @{ $told{$method} }, $node->safe_psql('postgres', q{SELECT fields('INSERT INTO raising VALUES (1, 50)')});
	push @{ $told{$method} }, $node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT fields('SELECT count(*) FROM raising WHERE touchy(v) > 5 AND 1 / (v - 60) > 0')});
	$node->safe_psql('postgres', "ALTER TABLE raising DROP w; DROP INDEX raising_idx; ALTER TABLE raising ADD CONSTRAINT no_two EXCLUDE USING $method (v WITH =)");
	push @{ $told{$method} }, $node->safe_psql('postgres', q{SELECT fields('INSERT INTO raising VALUES (1, 70)')});
	$node->safe_psql('postgres', 'ALTER TABLE raising DROP CONSTRAINT no_two; INSERT INTO raising VALUES (50, 50)');
	s/\bfpbtree\b/btree/g for @{ $told{$method} };
}
is_deeply($told{fpbtree}, $told{btree}, 'an error is told as with btree');
like($told{fpbtree}[$_], qr/^23X99 \| fifty is refused \| It is what it is\. \| Try forty-nine\. \| PL.pgSQL function (?:public\.)?touchy\(integer\) line 4 at RAISE.* \| a table \| a column \| a constraint \| a schema \| a type$/s,
	"all of its fields, $_") for 0, 1;
like($told{fpbtree}[3], qr/^23P01 .* \| raising \|  \| no_two \| public \| $/s, 'a violated constraint is named');

# Ten thousand scans cancelled or failed in one session: its memory stays as it was.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE leak (id int, v int, w int2);
INSERT INTO leak SELECT i, i % 5000, i % 10 FROM generate_series(1, 20000) i;
CREATE INDEX leak_v ON leak USING fpbtree (v, w);
CREATE FUNCTION cancel_at(v int, at int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF v = at THEN
    PERFORM pg_cancel_backend(pg_backend_pid());
  END IF;
  RETURN v;
END $$;
CREATE FUNCTION fail_often(query text, times int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  failed int := 0;
BEGIN
  FOR i IN 1 .. times LOOP
    BEGIN
      EXECUTE query USING i % 4000 + 20;
    EXCEPTION WHEN division_by_zero OR query_canceled THEN
      failed := failed + 1;
    END;
  END LOOP;
  RETURN failed;
END $$;
-- Pages of this process alone, in kilobytes.
CREATE FUNCTION private_memory() RETURNS int LANGUAGE sql AS $$
  SELECT (a[2]::int - a[3]::int) * 4 FROM string_to_array(pg_read_file('/proc/self/statm'), ' ') a
$$;
SQL
my %scan = (
	'SET enable_indexonlyscan = off; SET enable_bitmapscan = off;' => 'SELECT count(1 / (v - $1)) FROM leak WHERE v > $1 - 15',
	'SET enable_bitmapscan = off;' => 'SELECT count(1 / (w - 5)) FROM leak WHERE v > $1 - 15',
	'SET enable_indexscan = off; SET enable_indexonlyscan = off;' => 'SELECT count(1 / (v - $1)) FROM leak WHERE v BETWEEN $1 - 15 AND $1 + 15',
	'SET enable_bitmapscan = off; SET enable_sort = off;' => 'SELECT v, 1 / (v - $1) FROM leak WHERE v < $1 + 15 ORDER BY v DESC, w DESC',
	'SET enable_bitmapscan = off; SET enable_indexonlyscan = off; ' => 'SELECT count(cancel_at(v, $1)) FROM leak WHERE v > $1 - 15',
	'SET enable_indexscan = off; ' => 'SELECT count(cancel_at(v, $1)) FROM leak WHERE v = ANY (ARRAY[$1 - 1, $1, $1 + 1, $1 + 2])');
for my $settings (sort keys %scan)
{
	my ($warm, $before, $failed, $after) = split /\n/, $node->safe_psql('postgres', "SET enable_seqscan = off; $settings\n"
		  . "SELECT fail_often('$scan{$settings}', 1000);\nSELECT private_memory();\nSELECT fail_often('$scan{$settings}', 10000);\nSELECT private_memory();");
	is($failed, 10000, "$scan{$settings}: failed each time");
	cmp_ok($after - $before, '<', 10240, "$scan{$settings}: no memory leaked") or diag("$before kB before, $after kB after");
}

# Statements, not subtransactions: each cancelled by the clock or by itself.
my $script = "SET enable_seqscan = off;\n\\set VERBOSITY sqlstate\nSELECT fail_often('SELECT 1 / (v - \$1) FROM leak WHERE v > \$1 - 15', 500);\nSELECT private_memory();\n"
  . "SELECT count(cancel_at(v, 2000)) FROM leak WHERE v > 1950;\n" x 2000 . "SELECT private_memory();\n";
my ($status, $out, $err) = $node->psql('postgres', $script, on_error_stop => 0);
my (undef, $before, $after) = split /\n/, $out;
is(scalar(() = $err =~ /ERROR:  57014/g), 2000, 'two thousand statements cancelled');
cmp_ok($after - $before, '<', 10240, 'cancelled statements leak no memory') or diag("$before kB before, $after kB after");

# A lock or a pin left behind would keep these waiting.
$node->safe_psql('postgres', 'SET statement_timeout = 60000; DELETE FROM leak WHERE id % 2 = 0');
$node->safe_psql('postgres', 'SET statement_timeout = 60000; VACUUM (FREEZE) leak');
is_sound($node, 'after many failures', 'leak_v');
server_is_clean($node, 'cancelled');
$node->stop;
done_testing();
