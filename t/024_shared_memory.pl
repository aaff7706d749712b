# A server whose shared memory cannot be had says so if it is fpbtree.hot_cache_size that asks for too much.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# In kilobytes, as the extension asks for it.
my $machine = `getconf _PHYS_PAGES` * `getconf PAGESIZE` / 1024;
my $node = PostgreSQL::Test::Cluster->new('node');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'\nautovacuum = off\n");

# What the server's log says of the setting after a start with these; whether it has started.
sub start_with
{
	my %settings = @_;
	$node->append_conf('postgresql.conf', "$_ = '$settings{$_}'") for sort keys %settings;
	my $from = -s $node->logfile // 0;
	my $started = $node->start(fail_ok => 1);
	my $log = substr slurp_file($node->logfile), $from;
	$node->stop if $started;
	return ($started, join "\n", $log =~ /((?:WARNING|FATAL|HINT): .*fpbtree\.hot_cache_size.*)$/mg);
}

SKIP: {
	skip 'a machine with two terabytes of memory', 3 if $machine >= 2147483647;
	my ($started, $said) = start_with('fpbtree.hot_cache_size' => '2147483647kB');
	ok(!$started, 'no server with a cache larger than the machine');
	like($said, qr/^FATAL:  fpbtree\.hot_cache_size asks for 2097151 MB of shared memory$/m, 'which says why');
	like($said, qr/^HINT:  Reduce fpbtree\.hot_cache_size\.$/m, 'and what to do');
}
my (undef, $said) = start_with('fpbtree.hot_cache_size' => '64MB', shared_buffers => 2 * $machine . 'kB');
like($said, qr/^WARNING:  fpbtree\.hot_cache_size asks for 64 MB of shared memory$/m, 'together with shared_buffers: a warning');
my ($started, $quiet) = start_with(shared_buffers => '16MB');
ok($started, 'a server with both in bounds');
is($quiet, '', 'of which nothing is said');
done_testing();
