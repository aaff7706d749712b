# What the tests of a whole server share.
package FpbtreeTest;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run ();
use Test::More;

our @EXPORT = qw(trust_output_plugin start_load kill_all catch_up is_sound answers_alike told_meanwhile server_is_clean);

# The planner is left this one way to scan.
my %way = (
	'sequential' => 'SET enable_indexscan = off; SET enable_bitmapscan = off;',
	'index' => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;',
	'index-only' => 'SET enable_seqscan = off; SET enable_bitmapscan = off;',
	'bitmap' => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;');

my $scripts_written = 0;

# Newer minor releases take only the output plugins that are named.
sub trust_output_plugin
{
	my ($node, $plugin) = @_;
	return if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_settings WHERE name = 'output_plugin_libraries'}) eq '0';
	$node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput, $plugin'");
	$node->reload;
	return;
}

# Starts pgbench on scripts, given as text => weight; "rate" bounds its transactions a second. Returns what finish_run of
# IPC::Run wants.
sub start_load
{
	my ($node, $clients, $seconds, %scripts) = @_;
	my $rate = delete $scripts{rate};
	my @files;
	for my $script (sort keys %scripts)
	{
		my $path = $node->basedir . '/load_' . $scripts_written++ . '.sql';
		PostgreSQL::Test::Utils::append_to_file($path, $script);
		push @files, '-f', "$path\@$scripts{$script}";
	}
	my $log = $node->basedir . '/pgbench.log';
	return IPC::Run::start(
		[
			'pgbench', '-n', '-c', $clients, '-T', $seconds, $rate ? ('-R', $rate) : (), @files,
			'-h', $node->host, '-p', $node->port, 'postgres'
		],
		'<', \undef, '>', $log, '2>', "$log.err");
}

# SIGKILL for the postmaster and every one of its children, so that nobody tidies up.
sub kill_all
{
	my ($node) = @_;
	my $postmaster = $node->{_pid};
	# Stopped first, so that nobody is born who is not on the list: VACUUM's parallel workers come and go.
	kill 'STOP', $postmaster;
	while ((status_of($postmaster))[0] !~ /[TXZ]/) { select undef, undef, undef, 0.005; }
	my @pids = grep { (status_of($_))[1] == $postmaster } map { m{/proc/(\d+)$} } glob '/proc/[0-9]*';
	# The postmaster last: who notices that it is gone would tidy up after all.
	push @pids, $postmaster;
	kill 'KILL', @pids;
	$node->{_pid} = undef;
	while (grep { (status_of($_))[0] !~ /[XZ]/ } @pids) { select undef, undef, undef, 0.05; }
	# All dead, but one whose parent has not asked yet would pass for an owner of the lock files.
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

# Waits until a standby has replayed all that a node has logged: also what no commit has flushed, as VACUUM's records, which
# wait_for_catchup() alone does not wait for.
sub catch_up
{
	my ($node, $standby) = @_;
	$node->safe_psql('postgres', q{SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'fpbtree', '')});
	$node->wait_for_catchup($standby);
	return;
}

# A process's state and its parent; dead if there is no such process.
sub status_of
{
	my ($pid) = @_;
	open my $stat, '<', "/proc/$pid/stat" or return ('X', 0);
	my $line = <$stat> // '';
	return $line =~ /^\d+ \(.*\) (\S) (\d+)/s ? ($1, $2) : ('X', 0);
}

# Nothing for fpbtree_check to report, every row of the table found. A standby checks while its replay rests.
sub is_sound
{
	my ($node, $name, @indexes) = @_;
	my $replays = $node->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 't';
	if ($replays)
	{
		$node->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
		$node->poll_query_until('postgres', "SELECT pg_get_wal_replay_pause_state() = 'paused'");
	}
	for my $index (@indexes)
	{
		my ($status, $out, $err) = $node->psql('postgres', "SELECT * FROM fpbtree_check('$index', true)");
		is("$status/$out/$err", '0//', "$name: $index is sound");
	}
	$node->safe_psql('postgres', 'SELECT pg_wal_replay_resume()') if $replays;
	return;
}

# The same rows, in one snapshot, through the index in each way as by a sequential scan; where the
# query is ordered, in the same order.
sub answers_alike
{
	my ($node, $name, @queries) = @_;
	for my $query (@queries)
	{
		my $statements = 'SET jit = off; SET max_parallel_workers_per_gather = 0; SET statement_timeout = 120000;'
		  . 'BEGIN ISOLATION LEVEL REPEATABLE READ;';
		for my $way ('sequential', 'index', 'index-only', 'bitmap')
		{
			my $list = $query =~ /ORDER BY/ ? q{md5(string_agg(s::text, ','))} : q{sum(hashtextextended(s::text, 0))};
			$statements .= 'RESET enable_seqscan; RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan;'
			  . " $way{$way} SELECT count(*), $list FROM ($query) s;\n";
		}
		my ($status, $out, $err) = $node->psql('postgres', $statements . 'COMMIT;');
		my @answers = split /\n/, $out;
		is($status, 0, "$name: answered: $query") or diag($err);
		is(scalar(@answers), 4, "$name: four answers: $query");
		is_deeply([ @answers[ 1 .. $#answers ] ], [ ($answers[0]) x $#answers ], "$name: alike: $query");
	}
	return;
}

# What a standby's session in a transaction is told, if anything, while such statements run on the primary. It is quit.
sub told_meanwhile
{
	my ($standby, $session, $primary, @statements) = @_;
	$session->query_until(qr/asleep/, "\\echo asleep\nSELECT pg_sleep(20);\n\\echo awake\n");
	$standby->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')});
	$primary->safe_psql('postgres', $_) for @statements;
	$session->query_until(qr/awake/, '');
	my ($told) = $session->{stderr} =~ /(ERROR: [^\n]*\nDETAIL: [^\n]*)/s;
	$session->quit;
	return $told // "nothing: $session->{stderr}";
}

# No crash, no assertion, no leak since the log position given.
sub server_is_clean
{
	my ($node, $name, $from) = @_;
	my $log = substr PostgreSQL::Test::Utils::slurp_file($node->logfile), $from // 0;
	my @bad = grep { /terminated by signal|PANIC:|TRAP:|refcount leak|resource was not closed|panicked at/ } split /\n/, $log;
	is(join("\n", @bad), '', "$name: nothing amiss in the server's log");
	return;
}

1;
