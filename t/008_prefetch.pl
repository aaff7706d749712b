# Reading ahead: the same answers whatever the distance, nothing read in vain, nothing left behind by a scan given up.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

# In so few buffers hardly a page is found again: every scan is a cold one.
my ($few_buffers, $enough_buffers) = ('1MB', '128MB');
my $node = PostgreSQL::Test::Cluster->new('prefetch');
$node->init(allows_streaming => 1, extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', <<"CONF");
shared_buffers = $few_buffers
effective_io_concurrency = 32
autovacuum = off
restart_after_crash = off
jit = off
max_parallel_workers_per_gather = 0
log_statement = none
CONF
$node->start;

# Values in another order than rows; some of a few values; some rows that are not all-visible.
my $fill = q{INSERT INTO t SELECT i, hashint4(i), md5(i::text), i % 200, repeat('x', 60) FROM generate_series(1, 80000) i};
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION fpbtree;
CREATE TABLE t (id int, v int, s text COLLATE "C", w int2, filler text);
$fill;
CREATE INDEX t_v ON t USING fpbtree (v);
CREATE INDEX t_s ON t USING fpbtree (s);
CREATE INDEX t_list ON t USING fpbtree (w DESC, v);
CREATE TABLE places (start int);
INSERT INTO places SELECT hashint4(i) FROM generate_series(-20, -1) i;
CREATE TABLE wanted AS SELECT array_agg(v) AS v, array_agg(s) AS s FROM t WHERE id % 500 = 7;
SQL
$node->safe_psql('postgres', 'VACUUM (ANALYZE) t');
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id BETWEEN 20000 AND 22000');

# A database's settings are every session's.
sub restart_with
{
	my ($server, %settings) = @_;
	$server->safe_psql('postgres', 'ALTER DATABASE postgres RESET ALL');
	$server->safe_psql('postgres', "ALTER DATABASE postgres SET $_ = '$settings{$_}'") for sort keys %settings;
	$server->restart;
	return;
}

sub restart_cold
{
	my ($buffers) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET shared_buffers = '$buffers'");
	restart_with($node);
	return;
}

my ($some_v, $some_s) = ('v = ANY ((SELECT v FROM wanted)::int[])', 's = ANY ((SELECT s FROM wanted)::text[])');
my @queries = (
	'SELECT v FROM t WHERE v > 500000000 ORDER BY v',
	'SELECT v FROM t WHERE v BETWEEN -1500000000 AND 500000000 ORDER BY v DESC',
	'SELECT id, v, s FROM t WHERE v < -1000000000',
	'SELECT v FROM t ORDER BY v LIMIT 2000',
	q{SELECT s FROM t WHERE s > '4' AND s < 'b' ORDER BY s},
	q{SELECT s FROM t WHERE s < '9' ORDER BY s DESC},
	q{SELECT id, s FROM t WHERE s > 'a'},
	'SELECT w, v FROM t WHERE w BETWEEN 20 AND 90 ORDER BY w DESC, v',
	'SELECT w, v FROM t WHERE w = ANY (ARRAY[3, 77, 199, 3]::int2[]) AND v > 0',
	'SELECT w, v FROM t WHERE v BETWEEN 5000000 AND 9000000',
	"SELECT id, v FROM t WHERE $some_v",
	"SELECT id, s FROM t WHERE $some_s",
	# Many scans begun, each given up midway.
	'SELECT start, v FROM places, LATERAL (SELECT v FROM t WHERE v >= start ORDER BY v LIMIT 700) few');
my @ways = (
	{ 'fpbtree.prefetch' => 'off' },
	{ 'fpbtree.prefetch' => 'on' },
	map { { 'fpbtree.prefetch_distance' => $_ } } 0, 1, 7, 1000);
for my $settings (@ways)
{
	restart_with($node, %$settings);
	answers_alike($node, join(' ', %$settings), @queries);
}

# Runs a query by an index of t in a session of its own: what it answers, what is read and what is asked for.
my %way = (
	'index' => 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;',
	'index-only' => 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;',
	'bitmap' => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;');

sub reads
{
	my ($way, $query, %more) = @_;
	my ($server, $index) = ($more{server} // $node, $more{index} // 't_v');
	my $settings = join '', map { "SET $_;\n" } @{ $more{settings} // [] };
	my $before = join '', map { "$_;\n" } @{ $more{before} // [] };
	my @lines = split /\n/, $server->safe_psql('postgres', <<"SQL");
$way{$way}
$settings
\\o /dev/null
$before
SELECT requested AS asked_before FROM fpbtree_stat_prefetch('$index') \\gset
SELECT pg_stat_force_next_flush();
SELECT pg_stat_reset_single_table_counters('$index'::regclass), pg_stat_reset_single_table_counters('t'::regclass);
\\o
SELECT count(*), md5(string_agg(s::text, ',')) FROM ($query) s;
\\o /dev/null
SELECT pg_stat_force_next_flush();
\\o
SELECT idx_blks_read, (SELECT heap_blks_read FROM pg_statio_user_tables WHERE relid = 't'::regclass) FROM pg_statio_user_indexes WHERE indexrelid = '$index'::regclass;
SELECT requested - :asked_before, used, wasted FROM fpbtree_stat_prefetch('$index');
SQL
	my %reads = (answer => $lines[0]);
	@reads{qw(index heap)} = split /\|/, $lines[1];
	@reads{qw(requested used wasted)} = split /\|/, $lines[2];
	return \%reads;
}

# A bounded scan of a cold server: no more is read than without reading ahead, most of it is asked for, and hardly any in
# vain. The leaves of each index have one parent, which a scan reads anyway.
my $bounded = 'SELECT v FROM t WHERE v BETWEEN -500000000 AND 900000000 ORDER BY v';
my $bounded_rows = 'SELECT id FROM t WHERE v BETWEEN -500000000 AND -200000000 ORDER BY v';
my @bounded = (
	[ 'index-only', 't_v', $bounded ],
	[ 'index-only', 't_v', "$bounded DESC" ],
	[ 'index-only', 't_list', 'SELECT w, v FROM t WHERE w BETWEEN 50 AND 150 ORDER BY w DESC, v' ],
	[ 'index-only', 't_s', q{SELECT s FROM t WHERE s > '4' AND s < 'b' ORDER BY s} ],
	[ 'index-only', 't_s', "SELECT s FROM t WHERE $some_s ORDER BY s" ],
	[ 'index', 't_v', $bounded_rows ],
	[ 'index', 't_v', "$bounded_rows DESC" ],
	[ 'index', 't_s', q{SELECT id FROM t WHERE s > '4' AND s < '5' ORDER BY s} ],
	[ 'index', 't_v', "SELECT id FROM t WHERE $some_v ORDER BY v" ],
	[ 'bitmap', 't_v', 'SELECT v FROM t WHERE v BETWEEN -500000000 AND 900000000' ]);
$node->safe_psql('postgres', 'VACUUM (ANALYZE) t');
for my $scan (@bounded)
{
	my ($way, $index, $query) = @$scan;
	restart_cold($enough_buffers);
	my $without = reads($way, $query, index => $index, settings => ['fpbtree.prefetch = off']);
	is($without->{requested}, 0, "$way, $query: switched off, nothing is asked for");
	# The executor asks for the table's blocks of a bitmap.
	my $read = $without->{index} + ($way eq 'index' ? $without->{heap} : 0);
	for my $distance (1, 7, 1000)
	{
		my $name = "$way, $query: distance $distance";
		restart_cold($enough_buffers);
		my $with = reads($way, $query, index => $index, settings => ["fpbtree.prefetch_distance = $distance"]);
		is($with->{answer}, $without->{answer}, "$name: the same answer");
		cmp_ok($with->{index}, '<=', $without->{index}, "$name: no more is read of the index");
		cmp_ok($with->{heap}, '<=', $without->{heap}, "$name: no more is read of the table");
		cmp_ok($with->{requested}, '<=', $read, "$name: no more is asked for than read");
		cmp_ok($with->{requested}, '>=', 0.9 * $read - 10, "$name: most of what is read was asked for");
		cmp_ok($with->{wasted}, '<', 0.01 * $with->{requested}, "$name: hardly any in vain");
		is($with->{used} + $with->{wasted}, $with->{requested}, "$name: each was used, or in vain");
	}
}

# When it asks, and when it does not.
restart_cold($enough_buffers);
my $cold = reads('index-only', $bounded, before => ['SELECT v FROM t WHERE v BETWEEN -500000000 AND -499900000']);
cmp_ok($cold->{requested}, '>=', 0.9 * $cold->{index} - 10, 'a first leaf in shared buffers does not keep a scan from asking');
restart_cold($enough_buffers);
is(reads('index', 'SELECT id FROM t WHERE v > 3000000 ORDER BY v LIMIT 1')->{requested}, 0, 'LIMIT 1 asks for nothing');
my $limited = reads('index', 'SELECT id FROM t WHERE v > 5000000 ORDER BY v LIMIT 100');
cmp_ok($limited->{requested}, '>', 20, 'LIMIT 100 asks');
cmp_ok($limited->{wasted}, '<=', $limited->{used} + 2, 'and for no more in vain than it used');
is(reads('index', $bounded_rows, before => [$bounded_rows])->{requested}, 0, 'what is in shared buffers is not asked for');
is(reads('index-only', $bounded, before => [$bounded])->{requested}, 0, 'nor are leaves');

# Half of the table is there: rows of the other half are found missing while their lines are being fetched.
my $all_rows = 'SELECT id, filler FROM t WHERE v > 0 ORDER BY v';
restart_cold($enough_buffers);
my $halves = reads('index', $all_rows, before => [ q{SELECT count(filler) FROM t WHERE ctid < '(600,0)'} ]);
is($halves->{answer}, reads('index', $all_rows, settings => ['fpbtree.prefetch = off'])->{answer}, 'half in shared buffers: the same answer');
cmp_ok($halves->{heap}, '>', 500, 'half in shared buffers: half is read');
cmp_ok($halves->{requested}, '>', 0.9 * ($halves->{heap} + $halves->{index}) - 10, 'half in shared buffers: the other half is asked for');
is($halves->{used}, $halves->{requested}, 'half in shared buffers: all that was asked for was used');

# What the planner makes of it.
sub cost
{
	my ($query, @settings) = @_;
	my $settings = join '', map { "SET $_;\n" } 'enable_seqscan = off', 'enable_bitmapscan = off', @settings;
	return $node->safe_psql('postgres', "LOAD 'fpbtree';\n$settings EXPLAIN $query") =~ /Index Scan.*\.\.([\d.]+) rows/ ? $1 : undef;
}
my %costs;
for my $buffers ($few_buffers, $enough_buffers)
{
	restart_cold($buffers);
	$costs{$buffers} = [ map { cost($all_rows, "fpbtree.prefetch_distance = $_") } 0, 1, 16, 100 ];
}
my @cost = @{ $costs{$few_buffers} };
is($cost[1], $cost[0], 'costs: one page ahead spares nothing');
cmp_ok($cost[2], '<', 0.6 * $cost[1], 'costs: a table larger than shared buffers is read faster if reads overlap');
cmp_ok($cost[3], '<=', $cost[2], 'costs: the more, the faster');
is_deeply($costs{$enough_buffers}, [ ($costs{$enough_buffers}[0]) x 4 ], 'costs: nothing changes in memory');
restart_cold($few_buffers);
my $ordered = "EXPLAIN (COSTS OFF) SELECT id FROM t WHERE v > 0 ORDER BY v LIMIT 2000";
my $cached = "LOAD 'fpbtree'; SET effective_cache_size = '1MB';";
like($node->safe_psql('postgres', "$cached SET fpbtree.prefetch = off; $ordered"), qr/Sort Key: v/, 'costs: without reading ahead, to sort is faster');
like($node->safe_psql('postgres', "$cached SET fpbtree.prefetch_distance = 100; $ordered"), qr/Index Scan using t_v/, 'costs: with it, the order of the index is');

my %requested = (
	'as far as the tablespace says' => [ [], [], 1 ],
	'the tablespace says no' => [ [], ['effective_io_concurrency = 0'], 0 ],
	'the tablespace has an option' => [ ['ALTER TABLESPACE pg_default SET (effective_io_concurrency = 0)'], ['effective_io_concurrency = 100'], 0 ],
	'the index says no' => [ ['ALTER INDEX t_v SET (prefetch = off)'], ['fpbtree.prefetch = on'], 0 ],
	'the index says zero' => [ ['ALTER INDEX t_v SET (prefetch_distance = 0)'], [], 0 ],
	'the session says more than the index' => [ ['ALTER INDEX t_v SET (prefetch_distance = 0)'], ['fpbtree.prefetch_distance = 5'], 1 ],
	'the index says more than the tablespace' => [ ['ALTER INDEX t_v SET (prefetch_distance = 5)'], ['effective_io_concurrency = 0'], 1 ]);
for my $name (sort keys %requested)
{
	my ($before, $settings, $asks) = @{ $requested{$name} };
	$node->safe_psql('postgres', $_) for @$before;
	restart_cold($enough_buffers);
	my $reads = reads('index', $bounded_rows, settings => $settings);
	is($reads->{requested} > 0 ? 1 : 0, $asks, "$name: " . ($asks ? 'asks' : 'does not ask')) or diag($reads->{requested});
	$node->safe_psql('postgres', $_) for 'ALTER TABLESPACE pg_default RESET (effective_io_concurrency)', 'ALTER INDEX t_v RESET (prefetch, prefetch_distance)';
}

# A wrong value given before the library is loaded is found when it is.
my ($status, $out, $err) = $node->psql('postgres', "SET fpbtree.prefetch_distance = 1001;\nLOAD 'fpbtree';\nSHOW fpbtree.prefetch_distance");
like($err, qr/WARNING:  1001 is outside the valid range for parameter "fpbtree.prefetch_distance" \(-1 \.\. 1000\)/, 'a wrong value set early is told of');
is($out, '-1', 'and not used');

# Storage parameters are dumped and restored.
$node->safe_psql('postgres', 'CREATE TABLE few (v int); CREATE INDEX few_v ON few USING fpbtree (v) WITH (fillfactor = 80, prefetch = off, prefetch_distance = 7)');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
my @connection = ('-h', $node->host, '-p', $node->port);
my $dump = PostgreSQL::Test::Utils::tempdir . '/dump.sql';
command_ok([ 'pg_dump', @connection, '-t', 'few', '-f', $dump, 'postgres' ], 'pg_dump');
$node->safe_psql('restored', 'CREATE EXTENSION fpbtree');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @connection, '-f', $dump, '-o', '/dev/null', 'restored' ], 'restore');
is($node->safe_psql('restored', q{SELECT pg_get_indexdef('few_v'::regclass)}),
	q{CREATE INDEX few_v ON public.few USING fpbtree (v) WITH (fillfactor='80', prefetch=off, prefetch_distance='7')}, 'the parameters are back');

# Scans given up midway, in each way, in one session: it goes on as if nothing had been.
restart_cold($few_buffers);
my $log_before = -s $node->logfile;
my $midway = $node->safe_psql('postgres', 'SELECT id FROM t WHERE v > 0 ORDER BY v LIMIT 1');
my $whole = 'SELECT count(*), sum(v) FROM t WHERE v > -1000000000';
my $answer = $node->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; $whole");
my $give_up = <<"SQL";
\\set VERBOSITY sqlstate
\\o /dev/null
SET fpbtree.prefetch_distance = 100;
SELECT id, v FROM t WHERE v > -1000000000 ORDER BY v LIMIT 300;
SELECT v FROM t WHERE v > -1000000000 ORDER BY v DESC LIMIT 5;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM t WHERE v > -1000000000;
FETCH 500 FROM c;
FETCH BACKWARD 50 FROM c;
CLOSE c;
DECLARE left_open CURSOR FOR SELECT v FROM t WHERE v > -1000000000;
FETCH 500 FROM left_open;
COMMIT;
SELECT count(1 / (id - $midway)) FROM t WHERE v > -1000000000;
BEGIN;
SAVEPOINT s;
DECLARE c CURSOR FOR SELECT id FROM t WHERE v > -1000000000;
FETCH 500 FROM c;
SELECT 1 / 0;
ROLLBACK TO s;
SELECT v FROM t WHERE v > -1000000000 LIMIT 500;
COMMIT;
SET statement_timeout = '100ms';
SELECT count(pg_sleep(0.001)) FROM t WHERE v > -1000000000;
RESET statement_timeout;
\\o
$whole;
SQL
for my $way (sort keys %way)
{
	($status, $out, $err) = $node->psql('postgres', "$way{$way}\n$give_up", on_error_stop => 0);
	is($out, $answer, "given up, $way: then the right answer");
	is(join(' ', $err =~ /ERROR:  (\w{5})/g), '22012 22012 57014', "given up, $way: the errors meant");
	is($node->psql('postgres', "$way{$way} SELECT count(CASE id WHEN $midway THEN pg_terminate_backend(pg_backend_pid())::int END) FROM t WHERE v > -1000000000"),
		2, "given up, $way: the session ended");
}
# A pin left behind would keep it waiting.
is($node->psql('postgres', q{SET statement_timeout = '60s'; VACUUM (FREEZE) t}), 0, 'given up: VACUUM comes through');
server_is_clean($node, 'given up', $log_before);

# Turned round, again and again; and the marks of a merge join.
my @turned = split /\n/, $node->safe_psql('postgres', <<"SQL");
$way{index}
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT v FROM t WHERE v > 0 ORDER BY v;
FETCH 2000 FROM c;
FETCH BACKWARD 1500 FROM c;
FETCH 5000 FROM c;
MOVE BACKWARD ALL FROM c;
FETCH ALL FROM c;
SQL
my @straight = split /\n/, $node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT v FROM t WHERE v > 0 ORDER BY v');
my @expected = (@straight[ 0 .. 1999 ], reverse(@straight[ 499 .. 1998 ]), @straight[ 500 .. 5499 ], @straight);
ok("@turned" eq "@expected", 'turned round: the right rows in the right order');
$node->safe_psql('postgres', 'CREATE TABLE pairs (k int, filler text); INSERT INTO pairs SELECT hashint4(i / 3), repeat(\'x\', 100) FROM generate_series(0, 29999) i ORDER BY hashint4(i)');
$node->safe_psql('postgres', 'CREATE INDEX pairs_k ON pairs USING fpbtree (k)');
my $merge = "$way{index} SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;";
my $pairs = 'SELECT count(*), sum(length(a.filler || b.filler)) FROM pairs a JOIN pairs b USING (k)';
like($node->safe_psql('postgres', "$merge EXPLAIN (COSTS OFF) $pairs"), qr/Merge Join\n.*\n *->  Index Scan using pairs_k.*\n *->  Index Scan using pairs_k/, 'a merge join of two index scans');
is($node->safe_psql('postgres', "$merge $pairs"), '90000|18000000', 'marks are kept');

# Splits, deletions and reused pages ahead of a scan that is under way: it sees what its snapshot does.
my $elsewhere = PostgreSQL::Test::Utils::tempdir . '/elsewhere';
for my $case ([ 'index', '' ], [ 'index', 'DESC' ], [ 'index-only', '' ], [ 'index-only', 'DESC' ])
{
	my ($way, $order) = @$case;
	my $name = "changed ahead, $way $order";
	$node->safe_psql('postgres', <<"SQL");
DROP TABLE IF EXISTS changed;
CREATE TABLE changed (id int, v int) WITH (fillfactor = 30);
INSERT INTO changed SELECT i, hashint4(i) FROM generate_series(1, 90000) i;
CREATE INDEX changed_v ON changed USING fpbtree (v);
SQL
	$node->safe_psql('postgres', 'VACUUM changed');
	$node->safe_psql('postgres', 'DELETE FROM changed WHERE abs(v) BETWEEN 500000000 AND 1200000000');
	# VACUUM would wait for the leaf that an index-only scan stands on.
	my $vacuum = $way eq 'index' ? 'VACUUM changed;' : '';
	unlink $elsewhere;
	append_to_file($elsewhere, <<"SQL");
SET statement_timeout = '60s';
$vacuum
SELECT deleted_pages FROM fpbtree_stats('changed_v');
INSERT INTO changed SELECT i, hashint4(i) FROM generate_series(100001, 115000) i;
INSERT INTO changed SELECT i, hashint4(i) FROM generate_series(200001, 215000) i;
DELETE FROM changed WHERE id % 3 = 0;
$vacuum
\\echo done
SQL
	my $psql = join ' ', 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', @connection, '-f', $elsewhere, 'postgres', ">$elsewhere.out", '2>&1';
	my $seen = $node->safe_psql('postgres', <<"SQL");
$way{$way}
SET fpbtree.prefetch_distance = 100;
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE c CURSOR FOR SELECT v FROM changed WHERE abs(v) < 2100000000 ORDER BY v $order;
FETCH 5000 FROM c;
\\! $psql
FETCH ALL FROM c;
COMMIT;
SELECT requested > 100 FROM fpbtree_stat_prefetch('changed_v');
SQL
	my $asked = $seen =~ s/\n(t|f)$// ? $1 : '?';
	my ($deleted) = slurp_file("$elsewhere.out") =~ /^(\d+)\ndone\n$/;
	ok(defined $deleted, "$name: it was changed") or diag(slurp_file("$elsewhere.out"));
	my $right = $node->safe_psql('postgres', <<"SQL");
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;
SELECT hashint4(i) FROM generate_series(1, 90000) i WHERE abs(hashint4(i)) < 2100000000 AND NOT abs(hashint4(i)) BETWEEN 500000000 AND 1200000000 ORDER BY 1 $order;
SQL
	ok($seen eq $right, "$name: all rows of the snapshot, in order, and no others");
	cmp_ok($deleted, '>', 5, "$name: leaves were deleted") if $way eq 'index';
	is($asked, 't', "$name: it read ahead");
	is_sound($node, $name, 'changed_v');
	answers_alike($node, $name, 'SELECT v FROM changed WHERE v > -1500000000 ORDER BY v');
}

# A temporary table, in few local buffers.
my ($alone, $alike, $asked) = split /\n/, $node->safe_psql('postgres', <<"SQL");
SET temp_buffers = '800kB';
CREATE TEMP TABLE own (id int, v int, filler text);
INSERT INTO own SELECT i, hashint4(i), repeat('x', 60) FROM generate_series(1, 40000) i;
CREATE INDEX own_v ON own USING fpbtree (v);
SET enable_indexscan = off; SET enable_bitmapscan = off;
SELECT md5(string_agg(id::text, ',' ORDER BY v)) FROM own WHERE v > -1000000000;
RESET enable_indexscan;
$way{index}
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM own WHERE v > 0 ORDER BY v;
MOVE 1000 FROM c;
COMMIT;
SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM own WHERE v > -1000000000 ORDER BY v) s;
SELECT requested > 1000 FROM fpbtree_stat_prefetch('own_v');
SQL
is($alike, $alone, 'a temporary table: the same answer');
is($asked, 't', 'a temporary table: read ahead');

# Rows that the nodes look up together, a leaf's at a time, as the visibility map knows of none.
$node->safe_psql('postgres', 'UPDATE t SET filler = id WHERE id % 40 = 0');
for my $query ('SELECT count(*), min(v) FROM t WHERE v > 0', 'SELECT v FROM t WHERE v > 0 ORDER BY v OFFSET 8000 LIMIT 50')
{
	like($node->safe_psql('postgres', "$way{'index-only'} EXPLAIN $query"), qr/Custom Scan/, "$query: a node");
	my $expected = reads('index-only', $query, settings => ['fpbtree.custom_scans = off'])->{answer};
	restart_cold($enough_buffers);
	my $reads = reads('index-only', $query);
	is($reads->{answer}, $expected, "$query: the same answer");
	cmp_ok($reads->{requested}, '>', 500, "$query: rows are asked for");
	cmp_ok($reads->{used}, '<=', $reads->{heap} + $reads->{index}, "$query: each page once");
	cmp_ok($reads->{wasted}, '<', 0.03 * $reads->{requested}, "$query: hardly any in vain");
	is($reads->{used} + $reads->{wasted}, $reads->{requested}, "$query: each was used, or in vain");
}

# A standby, cold.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
for my $distance (1, 1000)
{
	$node->safe_psql('postgres', "ALTER DATABASE postgres SET fpbtree.prefetch_distance = $distance");
	catch_up($node, $standby);
	$standby->restart;
	my $reads = reads('index', $bounded_rows, server => $standby);
	is($reads->{answer}, reads('index', $bounded_rows, settings => ['fpbtree.prefetch = off'])->{answer}, "standby, distance $distance: the primary's answer");
	cmp_ok($reads->{requested}, '>', 100, "standby, distance $distance: read ahead");
	answers_alike($standby, "standby, distance $distance", @queries);
}

server_is_clean($node, 'primary');
server_is_clean($standby, 'standby');
$standby->stop;
$node->stop;
done_testing();
