# Every allocation and every file call that a scan, an insertion, VACUUM or a build makes, failed in turn: an error each
# time, or success where nothing depends on the call; the same session does the same statement again, and the index is
# sound. FPBTREE_ALL_POINTS=1 tries all points of statements that have very many, too.
# Needs: icu
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $library = PostgreSQL::Test::Utils::tempdir() . '/failure_points.so';
my $source = dirname(abs_path($INC{'FpbtreeTest.pm'})) . '/failure_points.c';
chomp(my $headers = `pg_config --includedir-server`);
plan skip_all => 'no C compiler' if system('cc --version >/dev/null 2>&1') != 0;
BAIL_OUT('the library that lets calls fail cannot be made')
  if system("cc -O2 -fno-builtin -shared -fPIC -Wl,-z,lazy -I'$headers' -o '$library' '$source'") != 0;

# So many file calls of a statement one by one, and as many of the others. Of allocations all.
my ($DENSE, $SPARSE) = $ENV{FPBTREE_ALL_POINTS} ? (1 << 30, 1) : (15, 5);
# After so many lost servers the rest of a statement's points is not tried.
my $MOST_LOST = $ENV{FPBTREE_ALL_POINTS} ? 1 << 30 : 2;

my $node = PostgreSQL::Test::Cluster->new('failure_points');
$node->init(extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 1MB
effective_io_concurrency = 64
autovacuum = off
restart_after_crash = off
jit = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
log_statement = none
log_connections = off
log_disconnections = off
checkpoint_timeout = 1h
statement_timeout = 60s
CONF
# What workers read does not fail here.
$node->append_conf('postgresql.conf', 'io_method = sync') if $node->pg_version->major >= 18;
$ENV{LD_PRELOAD} = $library;
$node->start;

# What tables are made of: a key of each kind from a number, and numbers that are in no order.
my %types = ('int4' => 'int', 'text' => 'text COLLATE "C"', 'icu' => 'text COLLATE "und-x-icu"', 'numeric' => 'numeric');
my %keys = ('int4' => 'hashint4(%s)', 'text' => 'repeat(md5(%s::text), 4)', 'icu' => q{repeat('ä' || md5(%s::text), 4)}, 'numeric' => 'hashint4(%s) / 7.0');
my %low = ('int4' => '-1000000000', 'text' => q{'3'}, 'icu' => q{'ä3'}, 'numeric' => '-150000000.5');
my %high = ('int4' => '-700000000', 'text' => q{'4'}, 'icu' => q{'ä4'}, 'numeric' => '-100000000.5');
my @kinds = qw(int4 text icu numeric);

# The planner is left this one way to scan.
my $only_index = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off';
my $only_index_only = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off';
my $only_bitmap = 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off';

sub key { return sprintf $keys{ $_[0] }, $_[1]; }

# Larger than shared buffers, with one index, for scans.
sub scanned_table
{
	my ($table, $kind, $include) = @_;
	my $rows = "SELECT i, @{[ key($kind, 'i') ]}, repeat('x', 200) FROM generate_series";
	$node->safe_psql('postgres', <<"SQL");
DROP TABLE IF EXISTS $table;
CREATE TABLE $table (id int, k $types{$kind}, filler text);
INSERT INTO $table $rows(1, 12000) i;
CREATE INDEX ${table}_k ON $table USING fpbtree (k) $include;
VACUUM (ANALYZE) $table;
UPDATE $table SET id = id WHERE id % 50 = 0;
SQL
	my ($asked) = reverse split /\n/, $node->safe_psql('postgres', "$only_index; SELECT FROM $table WHERE k > $low{$kind} ORDER BY k LIMIT 250; SELECT requested > 0 FROM fpbtree_stat_prefetch('${table}_k')");
	is($asked, 't', "$kind: rows are asked for ahead");
	return;
}

# Whether one call fails, or with it all later ones.
my ($one, $and_later) = ('false', 'true');
my ($points, %points_of, %states) = (0);

# Runs points of a statement, each in a new connection, and says what became of them.
sub run_points
{
	my ($case, $what, $mode, @numbers) = @_;
	my $script = "\\set VERBOSITY sqlstate\n";
	# What loads the library is a case of its own.
	my $load = $case->{loads} ? '' : q{LOAD 'fpbtree';} . ($case->{cold} ? '' : $case->{warm});
	for my $n (@numbers)
	{
		$script .= "\\c\n\\echo point $n\n\\o /dev/null\nSET client_min_messages = error;\n";
		$script .= "$case->{setup};\n\\c\nSET client_min_messages = error;\n" if $case->{setup};
		$script .= "$case->{before};\n$load;\n\\o\n";
		$script .= "SELECT fail_arm('$what', $n, $mode) \\gset _\n\\echo first\n$case->{statement};\n\\set state :SQLSTATE\n\\set failed :ERROR\n";
		$script .= "SELECT fail_disarm() AS seen, fail_hit() AS hit \\gset\n\\echo said :state :seen :hit\n";
		my $again = "\\echo again\n$case->{statement};\n";
		$script .= $case->{once} ? "\\if :failed\n$again\\endif\n" : $again;
		$script .= "\\echo then :SQLSTATE\n" . ($case->{after} // '') . "\n\\echo end\n";
	}
	# From a file: nobody is left to read it when the server is lost.
	my $file = PostgreSQL::Test::Utils::tempdir() . '/points.sql';
	unlink $file;
	append_to_file($file, $script);
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-f', $file, 'postgres' ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout(600));
	my %found;
	my @blocks = split /^point (\d+)\n/m, "$out\n";
	shift @blocks;
	while (my ($n, $block) = splice @blocks, 0, 2)
	{
		next unless $block =~ /^first\n(.*?)^said (\w+) (\d+) (\w)\n(?:again\n(.*?))?^then (\w+)\n(.*?)^end\n/ms;
		$found{$n} = { answer => $2 eq '00000' ? $1 : undef, state => $2, seen => $3, hit => $4 eq 't', again => $5, then => $6, after => $7 };
	}
	return (\%found, $err);
}

# Starts the server anew if a point has ended it, and says what it said.
sub revive
{
	my ($from) = @_;
	my $pid = $node->{_pid};
	# It takes a moment until the postmaster has given up.
	for (1 .. 100) { last unless kill 0, $pid; select undef, undef, undef, 0.03; }
	return if kill 0, $pid;
	$node->{_pid} = undef;
	my $log = substr PostgreSQL::Test::Utils::slurp_file($node->logfile), $from;
	unlink $node->data_dir . '/postmaster.pid';
	$node->start;
	return join "\n", grep { /PANIC|TRAP|panicked|memory allocation of|signal|fatal runtime|cannot unwind|\.so\(|postgres: .*\(\+0x|bin\/postgres\(/ } split /\n/, $log;
}

# Which points are tried, and a few behind the last.
sub chosen_of
{
	my ($what, $total) = @_;
	return 1 .. $total + 2 if $what eq 'memory' || $total <= $DENSE;
	my $stride = int(($total - $DENSE) / $SPARSE) || 1;
	return 1 .. $DENSE, grep { ($_ - $DENSE) % $stride == 0 } $DENSE + 1 .. $total;
}

# Tries the points of a kind of call.
sub try_points
{
	my ($case, $what, $mode) = @_;
	my $name = "$case->{name}, $what" . ($mode eq $and_later ? ', and all later' : '');
	my ($found, $err) = run_points($case, $what, $mode, 0);
	my $sound = $found->{0} or return fail("$name: $err");
	is("$sound->{state} $sound->{then}", '00000 00000', "$name: without a failure") or diag($err);
	my $expected = { answer => $sound->{answer}, after => $sound->{after} };
	my $total = $sound->{seen};
	my @numbers = grep { $what eq 'files' || $_ % ($case->{every} // 1) == 0 } chosen_of($what, $total);
	my ($tried, $tolerated, $lost, @wrong) = (0, 0, 0);
	while (@numbers)
	{
		my @batch = splice @numbers, 0, 100;
		while (@batch)
		{
			my $from = -s $node->logfile;
			($found, $err) = run_points($case, $what, $mode, @batch);
			my $n;
			while (defined($n = shift @batch) && (my $point = $found->{$n}))
			{
				next unless $point->{hit};
				# It takes more calls than it took without a failure.
				@numbers = $n + 1 .. $n + 3 if $n >= $total && !@batch && !@numbers;
				$tried++;
				$states{ $point->{state} }++;
				$tolerated++ if $point->{state} eq '00000';
				my $why = wrong_with($case, $point, $expected, $what);
				push @wrong, "point $n: $why" if $why;
			}
			last unless defined $n;
			my $said = revive($from) // "no end: $err";
			push @wrong, "point $n: server lost\n$said";
			$tried++;
			@numbers = @batch = () if ++$lost >= $MOST_LOST;
		}
	}
	is(join("\n", @wrong), '', "$name: $tried points" . ($total > $tried ? " of $total" : '') . ", $tolerated do no harm");
	$points += $tried;
	$points_of{ $case->{group} } += $tried;
	return;
}

# What is wrong with a point, if anything is.
sub wrong_with
{
	my ($case, $point, $expected, $what) = @_;
	my $meant = $what eq 'memory' ? '53200' : '58030';
	return "state $point->{state}" unless $point->{state} =~ /^(00000|$meant)$/;
	return "another answer: $point->{answer}" if $point->{state} eq '00000' && $point->{answer} ne $expected->{answer};
	return "then state $point->{then}" if $point->{then} ne '00000';
	return "then another answer: $point->{again}" if defined $point->{again} && $point->{again} ne $expected->{answer};
	return "afterwards: $point->{after}" if $point->{after} ne $expected->{after};
	return;
}

sub try_case
{
	my ($case, @modes) = @_;
	for my $mode (@modes)
	{
		try_points($case, 'memory', $mode);
		try_points($case, 'files', $mode) if $mode eq $one || $case->{cold};
	}
	return;
}

# Scans of t, the first of them as a new session's first statement.
sub scans
{
	my ($index, $kind) = @_;
	my ($low, $high) = ($low{$kind}, $high{$kind});
	my $some = join ', ', map { key($kind, $_ * 611) } 1 .. 15;
	my @scans = (
		[ 'plain', $only_index, "SELECT id FROM t WHERE k > $low ORDER BY k LIMIT 250" ],
		[ 'first rows in memory', "$only_index; SELECT id FROM t WHERE k > $low ORDER BY k LIMIT 14", "SELECT id FROM t WHERE k > $low ORDER BY k LIMIT 250" ],
		[ 'backward', $only_index, "SELECT id FROM t WHERE k < $high ORDER BY k DESC LIMIT 150" ],
		[ 'index-only', $only_index_only, "SELECT k FROM t WHERE k > $low ORDER BY k LIMIT 4000" ],
		[ 'bitmap', $only_bitmap, "SELECT id FROM t WHERE k BETWEEN $low AND $high" ],
		[ '= ANY', $only_index, "SELECT id FROM t WHERE k = ANY (ARRAY[$some]) ORDER BY k" ]);
	my @cases;
	for my $scan (@scans)
	{
		my ($name, $before, $query, $after) = @$scan;
		my $statement = "SELECT count(*), md5(string_agg(s::text, ',')) FROM ($query) s";
		push @cases, { group => 'scan', name => "$index, scan, $name", before => $before, warm => "EXPLAIN $statement", statement => $statement, after => $after };
	}
	$cases[0]{cold} = 1;
	return @cases;
}

# In one session, of w: texts that need more room than there is, then shorter ones that would fit.
sub long_texts
{
	my ($index) = @_;
	my $count = 'SET enable_seqscan = off; SELECT count(*) FROM w WHERE k';
	return map { { group => 'scan', name => "$index, scan, text of $_ bytes", warm => 'SELECT', before => 'SELECT', statement => "$count = repeat('x', $_)",
		after => "$count = repeat('y', $_ - 99); $count > repeat('z', 2 * $_);\nBEGIN; INSERT INTO w VALUES (0, repeat('y', 1200)); ROLLBACK;" } } 3000, 100_000;
}

# What each change of w leaves: nothing to report, and as many rows in the index as there are.
my $state_of_w = "SELECT count(*) FROM fpbtree_check('w_k', true); SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), min(k), max(k) FROM w WHERE k IS NOT NULL;";

sub changes
{
	my ($index, $kind, $include) = @_;
	my $rows = $kind =~ /text|icu/ ? 300 : 700;
	my $insert = "INSERT INTO w SELECT i, @{[ key($kind, 'i') ]} FROM generate_series";
	my $filled = sub { return "DROP TABLE IF EXISTS w; CREATE TABLE w (id int, k $types{$kind}); $insert(1, $rows) i; CREATE $_[0] INDEX w_k ON w USING fpbtree (k) $include"; };
	my $again = "INSERT INTO w VALUES (1, @{[ key($kind, 5) ]});\n\\echo :SQLSTATE\n";
	my ($single, $many) = ("INSERT INTO w VALUES (0, @{[ key($kind, 0) ]})", "$insert(1001, 1000 + $rows) i");
	my @inserts = map { { group => 'insert', before => 'SELECT', warm => "EXPLAIN $_->{statement}", once => 1, after => $state_of_w, %$_ } }
	  { name => "$index, insert, one", setup => $filled->(''), statement => $single, cold => 1 },
	  { name => "$index, insert, many", setup => $filled->(''), statement => $many },
	  $include ? () : { name => "$index, insert, unique", setup => $filled->('UNIQUE'), statement => $many, after => "$again$state_of_w" };
	my $vacuum = { group => 'VACUUM', name => "$index, VACUUM", before => 'SELECT', warm => 'SELECT', cold => 1,
		setup => $filled->('') . "; $insert(1001, 1000 + $rows) i; DELETE FROM w WHERE k > $low{$kind}", statement => 'VACUUM (INDEX_CLEANUP on) w', after => $state_of_w };
	return (\@inserts, $vacuum);
}

# Builds: of t, and of many rows in little memory.
sub builds
{
	my ($index, $kind, $include) = @_;
	my $after = "SELECT count(*) FROM fpbtree_check('b_k', true);";
	# Each call of ICU's takes its time to be told from others.
	my $every = $ENV{FPBTREE_ALL_POINTS} || $kind ne 'icu' ? 1 : 5;
	my @builds = map { { group => 'build', before => 'DROP INDEX IF EXISTS b_k', warm => 'SELECT', cold => 1, once => 1, after => $after, %$_ } }
	  { name => "$index, build", every => $every, statement => "CREATE INDEX b_k ON t USING fpbtree (k) $include" },
	  { name => "$index, build, sorted on disk", every => $ENV{FPBTREE_ALL_POINTS} ? 1 : $kind =~ /int4|icu/ ? 5 : 2, before => "DROP INDEX IF EXISTS b_k; SET maintenance_work_mem = '1MB'", statement => "CREATE INDEX b_k ON many USING fpbtree (k) $include" };
	# Numbers of any length are sorted as texts are; many rows take their time.
	pop @builds unless $ENV{FPBTREE_ALL_POINTS} || $kind =~ /text|icu/ || $kind eq 'int4';
	return (@builds, { group => 'build', name => "$index, REINDEX", every => $every, before => 'SELECT', warm => 'SELECT', cold => 1, statement => 'REINDEX INDEX t_k', after => "SELECT count(*) FROM fpbtree_check('t_k', true);" });
}

sub many_rows
{
	my ($kind) = @_;
	my $rows = $kind =~ /text|icu/ ? 12000 : 150_000;
	$node->safe_psql('postgres', "DROP TABLE IF EXISTS many; CREATE TABLE many (id int, k $types{$kind}); INSERT INTO many SELECT i, @{[ key($kind, 'i') ]} FROM generate_series(1, $rows) i");
	my $temporary = 'SELECT sum(temp_files) FROM pg_stat_database';
	my $before = $node->safe_psql('postgres', $temporary);
	$node->safe_psql('postgres', "SET maintenance_work_mem = '1MB'; CREATE INDEX ON many USING fpbtree (k); SELECT pg_stat_force_next_flush()");
	cmp_ok($node->safe_psql('postgres', $temporary), '>', $before, "$kind: so many rows are sorted on disk");
	$node->safe_psql('postgres', 'DROP INDEX many_k_idx');
	return;
}

my $functions = <<"SQL";
CREATE FUNCTION fail_arm(text, bigint, boolean) RETURNS void LANGUAGE C AS '$library';
CREATE FUNCTION fail_disarm() RETURNS bigint LANGUAGE C AS '$library';
CREATE FUNCTION fail_hit() RETURNS boolean LANGUAGE C AS '$library';
SQL
$node->safe_psql('postgres', "CREATE EXTENSION fpbtree; $functions");

# Each kind of key, each log, with and without other columns; all of them together if all points are asked for.
my %chosen = map { $_ => 1 } 'int4 generic log', 'icu INCLUDE (id) generic log', 'text own log', 'numeric INCLUDE (id) own log';
my $load = { group => 'load', name => 'load', loads => 1, before => 'SELECT', statement => q{LOAD 'fpbtree'} };
try_case($load, $one);
for my $log ('generic', 'own')
{
	if ($log eq 'own')
	{
		$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
		$node->restart;
	}
	for my $kind (@kinds)
	{
		for my $include ('', 'INCLUDE (id)')
		{
			my $index = join ' ', grep { $_ } $kind, $include, "$log log";
			next unless $ENV{FPBTREE_ALL_POINTS} || $chosen{$index};
			scanned_table('t', $kind, $include);
			many_rows($kind);
			try_case($_, $one, $and_later) for scans($index, $kind);
			my ($inserts, $vacuum) = changes($index, $kind, $include);
			try_case($_, $one, $_->{cold} ? $and_later : ()) for @$inserts;
			try_case($_, $one) for $vacuum, builds($index, $kind, $include);
			try_points($_, 'memory', $one) for $kind =~ /text|icu/ ? long_texts($index) : ();
			is_sound($node, $index, 't_k', 'w_k');
		}
	}
}
# As many as there are at the least, whatever the server's own share in them.
my %least = (load => 0, scan => 500, insert => 100, VACUUM => 50, build => 100);
cmp_ok($points_of{$_} // 0, '>', $least{$_}, "$_: $points_of{$_} points") for sort keys %least;
note(join ' ', map { "$_: $states{$_}" } sort keys %states);
server_is_clean($node, 'the server');
note("$points points in all");
done_testing();
