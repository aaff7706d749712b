# A standby of a standby; the one between is promoted while its primary and then it itself are written to; the other one
# follows it to its timeline, and so does the old primary, once pg_rewind has taken it back to where they parted.
# Needs: pg_walinspect
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;
use FpbtreeLoad;

my $old = PostgreSQL::Test::Cluster->new('old');
$old->init(allows_streaming => 1);
$old->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 16MB
autovacuum = off
wal_keep_size = 4GB
max_wal_size = 1GB
log_statement = none
hot_standby_feedback = on
max_standby_streaming_delay = -1
CONF
$old->start;
make_loaded($old, 40000);

sub standby_of
{
	my ($name, $upstream) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$upstream->backup($name);
	$node->init_from_backup($upstream, $name, has_streaming => 1);
	$node->start;
	return $node;
}

# Takes a standby's primary away from it, as a failure might: in the middle of a record, most likely. But not where what it
# got ends with a segment of the log: a standby that follows it to its timeline from there dies of a PANIC of PostgreSQL's own.
sub cut_off
{
	my ($node, $its_standby) = @_;
	my $received = q{SELECT pg_last_wal_receive_lsn() - '0/0'};
	my $end;
	do
	{
		$node->safe_psql('postgres', $_) for 'ALTER SYSTEM RESET primary_conninfo', 'SELECT pg_reload_conf()';
		$node->poll_query_until('postgres', 'SELECT EXISTS (SELECT FROM pg_stat_wal_receiver)') or die 'does not receive';
		$node->safe_psql('postgres', $_) for q{ALTER SYSTEM SET primary_conninfo = ''}, 'SELECT pg_reload_conf()';
		$node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)') or die 'receives';
		$end = $node->safe_psql('postgres', $received);
	} while ($end % (16 << 20) == 0);
	$its_standby->poll_query_until('postgres', $received, $end) or die 'does not follow';
	return;
}

# Each backup under load, the second one of a standby.
my $pgbench = start_writing($old);
my $middle = standby_of('middle', $old);
my $far = standby_of('far', $middle);
churn($old);
answers_alike($far, 'standby of a standby, under load', @queries);
cmp_ok($old->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}), '>', 2, 'under load');
cut_off($middle, $far);
$middle->promote;
$middle->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
$middle->safe_psql('postgres', 'ALTER SYSTEM RESET primary_conninfo');
my $second = start_writing($middle);
answers_alike($far, 'on the way to the new timeline', @queries);
is_sound($middle, 'promoted, under load', @indexes);
churn($middle);
stop_writing($old, $pgbench);
stop_writing($middle, $second);
# Of the rows that the first load wrote later, nothing is here.
isnt(contents($old), contents($middle), 'the servers have parted');
is_whole($middle, 'promoted');
is_whole($old, 'left behind');

catch_up($middle, $far);
is($far->safe_psql('postgres', 'SELECT received_tli FROM pg_stat_wal_receiver'), '2', 'the standby of the standby follows');
is(contents($far), contents($middle), 'and has the same rows');
is_whole($far, 'on the new timeline');

$old->stop;
$middle->safe_psql('postgres', 'CHECKPOINT');
my $conf = $old->data_dir . '/postgresql.conf';
my $settings = slurp_file($conf);
my ($out, $err) = run_command([ 'pg_rewind', '--target-pgdata', $old->data_dir, '--source-server', $middle->connstr('postgres'), '--no-sync' ]);
like($err, qr/servers diverged at WAL location .* on timeline 1/, 'pg_rewind finds where they parted');
like($err, qr/Done!/, 'pg_rewind is done');
unlink $conf;
$old->append_conf('postgresql.conf', $settings);
$old->enable_streaming($middle);
$old->start;
catch_up($middle, $old);
is(contents($old), contents($middle), 'rewound: the new primary\'s rows');
is_whole($old, 'rewound');

write_everywhere($middle);
for my $node ($old, $far)
{
	catch_up($middle, $node);
	is(contents($node), contents($middle), $node->name . ': what is written goes on to it');
	is_whole($node, $node->name . ', at the end');
}
is_whole($middle, 'the new primary, at the end');
server_is_clean($_, $_->name) for $old, $middle, $far;
$_->stop for $far, $old, $middle;
done_testing();
