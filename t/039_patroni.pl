# Patroni: three nodes over one etcd. Ten times the leader is killed while rows are written: no row that was acknowledged is
# lost, the indexes of all nodes are sound, and replicas answer by index-only scans.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $rounds = $ENV{FPBTREE_FAILOVERS} || 10;
my ($etcd, $patroni) = map { my $name = $_; grep { -x } map { "$_/$name" } '/usr/bin', '/usr/sbin', '/usr/local/bin' } 'etcd', 'patroni';
plan skip_all => 'left out: etcd and Patroni are not installed' if !$etcd || !$patroni;

my @nodes = map { PostgreSQL::Test::Cluster->new($_) } 'one', 'two', 'three';
my %named = map { $_->name => $_ } @nodes;
my ($client, $peer, %api) = map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 2;
$api{ $_->name } = PostgreSQL::Test::Cluster::get_free_port() for @nodes;

# Starts a program that goes on, its output in a log. A backend whose server dies while it waits for a standby reads its
# standard input once more before it ends, which therefore has to have an end.
sub start_daemon
{
	my ($log, @command) = @_;
	return IPC::Run::start(\@command, '<', '/dev/null', '>>', $log, '2>&1');
}
my $directory = PostgreSQL::Test::Utils::tempdir;
my ($url, $peer_url) = map { "http://127.0.0.1:$_" } $client, $peer;
my $store = start_daemon("$directory/etcd.log", $etcd, '--data-dir', "$directory/etcd", '--listen-client-urls', $url, '--advertise-client-urls', $url,
	'--listen-peer-urls', $peer_url, '--initial-advertise-peer-urls', $peer_url, '--initial-cluster', "default=$peer_url");

sub config_of
{
	my ($node) = @_;
	my ($name, $port, $host, $data, $bindir) = ($node->name, $node->port, $node->host, $node->data_dir, $node->config_data('--bindir'));
	return <<"END";
scope: fpbtree
name: $name
restapi: {listen: '127.0.0.1:$api{$name}', connect_address: '127.0.0.1:$api{$name}'}
etcd3: {host: '127.0.0.1:$client'}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 5
    primary_start_timeout: 0
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters:
        shared_preload_libraries: fpbtree
        wal_keep_size: 1GB
        max_connections: 40
        wal_log_hints: 'on'
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, {auth: trust}, data-checksums]
postgresql:
  remove_data_directory_on_rewind_failure: true
  listen: '127.0.0.1:$port'
  connect_address: '127.0.0.1:$port'
  data_dir: $data
  bin_dir: $bindir
  authentication: {superuser: {username: postgres}, replication: {username: postgres}, rewind: {username: postgres}}
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
  parameters: {unix_socket_directories: '$host', jit: 'off'}
END
}

my %daemon;
sub start_patroni
{
	my ($node) = @_;
	$daemon{ $node->name } = start_daemon($node->logfile, $patroni, $node->basedir . '/patroni.yml');
	return;
}

# What the nodes say of themselves: name => [role, state], of those that answer.
sub members
{
	my %members;
	for my $node (@nodes)
	{
		my ($status, $out) = $node->psql('postgres', q{SELECT CASE WHEN pg_is_in_recovery() THEN 'replica' ELSE 'leader' END, CASE WHEN pg_is_in_recovery() THEN (SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming') ELSE (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming') END}, extra_params => [ '-U', 'postgres' ], timeout => 10, timed_out => \my $late);
		$members{ $node->name } = [ split /\|/, $out ] if defined $status && $status == 0;
	}
	return %members;
}

# Waits until there is one leader, other than one that was, with two replicas that follow it, one of them synchronously.
sub leader
{
	my ($except, $all) = @_;
	for my $try (1 .. 600)
	{
		my %members = members();
		my @leaders = grep { $members{$_}[0] eq 'leader' } keys %members;
		my $replicas = grep { $_->[0] eq 'replica' && $_->[1] eq '1' } values %members;
		if (@leaders == 1 && $leaders[0] ne $except && $replicas >= ($all ? 2 : 0))
		{
			my $leader = $named{ $leaders[0] };
			return $leader if !$all || $leader->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'}) eq '1';
		}
		select undef, undef, undef, 0.5;
	}
	die "no leader: $except";
}

$ENV{PGUSER} = 'postgres';
for my $node (@nodes)
{
	append_to_file($node->basedir . '/patroni.yml', config_of($node));
	start_patroni($node);
}
my $leader = leader('', 1);
$leader->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE t (id bigint, v int, note text COLLATE "C");
CREATE UNIQUE INDEX t_id ON t USING fpbtree (id);
CREATE INDEX t_v ON t USING fpbtree (v) INCLUDE (id);
CREATE INDEX t_note ON t USING fpbtree (note);
INSERT INTO t SELECT -i, hashint4(i), 'note ' || md5(i::text) FROM generate_series(1, 20000) i;
SQL
is($leader->safe_psql('postgres', q{SELECT string_agg(log, ' ') FROM unnest('{t_id,t_v,t_note}'::text[]) i, fpbtree_stats(i::regclass)}), 'own own own', 'the logs');

# Writers find the leader by a connection string of all nodes, and begin anew when their connection is lost. What psql has
# printed was acknowledged.
my $everywhere = 'dbname=postgres target_session_attrs=read-write connect_timeout=5 host=127.0.0.1,127.0.0.1,127.0.0.1 port=' . join ',', map { $_->port } @nodes;
my $insert = q{INSERT INTO t VALUES (&, hashint4(&), 'note ' || md5('&')) RETURNING id; UPDATE t SET v = v + 1 WHERE id = -(1 + abs(hashint4(&)) % 20000);};
my @writers = map { IPC::Run::start([ 'sh', '-c', <<'END', 'sh', $_, $insert, $everywhere, "$directory/stop" ], '<', \undef, '>>', "$directory/acknowledged", '2>>', "$directory/told") } 1, 501;
n=$1
while [ ! -e "$4" ]; do
	seq "$n" "$((n + 499))" | sed "s/.*/$2/" | stdbuf -oL psql -XqAt "$3"
	n=$((n + 1000))
	sleep 0.2
done
END

sub acknowledged
{
	return grep { /^\d+$/ } split /\n/, slurp_file("$directory/acknowledged");
}

# Waits until as many rows more are acknowledged.
sub write_rows
{
	my ($count) = @_;
	my $enough = acknowledged() + $count;
	for my $try (1 .. 1200)
	{
		return if acknowledged() >= $enough;
		select undef, undef, undef, 0.1;
	}
	die 'nothing is written: ' . slurp_file("$directory/told");
}

sub lost_rows
{
	my ($where) = @_;
	my @acknowledged = acknowledged();
	my %there = map { $_ => 1 } split /\n/, $where->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT id FROM t WHERE id > 0');
	return join ' ', grep { !$there{$_} } @acknowledged;
}

for my $round (1 .. $rounds)
{
	write_rows(200);
	my $whole = $round % 3 == 0;
	my $old = $leader;
	# The whole node, or the server alone.
	if ($whole) { $daemon{ $old->name }->signal('KILL'); $daemon{ $old->name }->finish }
	my ($postmaster) = slurp_file($old->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	kill 'KILL', $postmaster;
	$leader = leader($old->name);
	start_patroni($old) if $whole;
	write_rows(50);
	$leader = leader('', 1);
	is(lost_rows($leader), '', "failover $round, of " . ($whole ? 'a node' : 'a server') . ', to ' . $leader->name . ': nothing is lost');
}
append_to_file("$directory/stop", '');
$_->finish for @writers;
cmp_ok(scalar(acknowledged()), '>=', 250 * $rounds, 'acknowledged: ' . acknowledged());
$leader = leader('', 1);
$leader->safe_psql('postgres', 'VACUUM ANALYZE t');
# Patroni would have replay go on that is paused for a check.
$_->signal('STOP') for values %daemon;
for my $node (@nodes)
{
	my $name = $node->name;
	$leader->wait_for_catchup($name, 'replay') if $node != $leader;
	is_sound($node, $name, 't_id', 't_v', 't_note');
	answers_alike($node, $name, 'SELECT id FROM t WHERE id BETWEEN -500 AND 500 ORDER BY id', 'SELECT v, id FROM t WHERE v > 2000000000', q{SELECT note FROM t WHERE note LIKE 'note 7%' ORDER BY note}, 'SELECT count(*) FROM t');
	like($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET fpbtree.custom_scans = off; EXPLAIN (COSTS OFF) SELECT v, id FROM t WHERE v > 2000000000'), qr/Index Only Scan using t_v/, "$name: index-only");
	is(lost_rows($node), '', "$name: nothing is lost");
	unlike(slurp_file($node->logfile), qr/PANIC:|TRAP:|panicked at|terminated by signal (?!9)/, "$name: nothing amiss in the log");
}
$_->signal('CONT'), $_->signal('TERM'), $_->finish for values %daemon;
$store->kill_kill;
done_testing();
