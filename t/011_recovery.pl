# A base backup taken under a load that splits, vacuums and deletes pages, and recovery to named points and to any record
# of its log: right behind a split whose parent knows nothing of it, among others.
# Needs: pg_walinspect
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;
use FpbtreeLoad;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, has_archiving => 1);
$primary->append_conf('postgresql.conf', "shared_buffers = 16MB\nautovacuum = off\nwal_keep_size = 4GB\nlog_statement = none\n");
$primary->start;
make_loaded($primary, 30000);

my $pgbench = start_writing($primary);
select undef, undef, undef, 1;
$primary->backup('loaded');
my $from = $primary->lsn('insert');
cmp_ok($primary->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}), '>', 2, 'backed up under load');

# Nobody writes between the note and the point.
my %noted;
for my $point ('first', 'second')
{
	churn($primary);
	$noted{$point} = $primary->safe_psql('postgres', <<"SQL");
BEGIN;
LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE;
SELECT count(*), sum(v), sum(hashtext(t::text)) FROM t;
\\o /dev/null
SELECT pg_create_restore_point('$point');
COMMIT;
SQL
}
stop_writing($primary, $pgbench);
# Pages are sure to become empty, and to be deleted, while nobody inserts.
churn($primary);
my $end = contents($primary);
is_whole($primary, 'primary');
$primary->safe_psql('postgres', 'CREATE TABLE flushed ()');
my $to = $primary->lsn('flush');
my $last = $primary->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") or die 'not archived';

# Records of the load, and where block 0 of theirs is.
$primary->safe_psql('postgres', <<"SQL");
CREATE TABLE records AS SELECT start_lsn, record_type, description, block_ref
FROM pg_get_wal_records_info('$from', '$to') WHERE resource_manager = 'fpbtree';
SQL
my $placed = '#0: rel \d+/\d+/%s (?:fork main )?blk (\d+)';
my $begun = q{record_type = 'SPLIT' AND description ~ '^0: [^;]*split begun; 1: new page'};

# A record of some kind, of an index, from the middle of the load: where it begins, and the first of its blocks.
sub record
{
	my ($index, $condition) = @_;
	my $file = $primary->safe_psql('postgres', "SELECT pg_relation_filenode('$index')");
	my $pattern = sprintf $placed, $file;
	my $found = $primary->safe_psql('postgres', <<"SQL");
SELECT start_lsn, (regexp_match(block_ref, '$pattern'))[1] FROM records WHERE block_ref ~ '$pattern' AND $condition
ORDER BY start_lsn OFFSET (SELECT count(*) / 2 FROM records WHERE block_ref ~ '$pattern' AND $condition) LIMIT 1
SQL
	isnt($found, '', "the load left such a record of $index: $condition");
	return split /\|/, $found;
}

# Recovers the backup as far as the settings say. What is written then is to be seen in the log, not covered by images.
sub recovered
{
	my ($name, $settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($primary, 'loaded', $settings eq '' ? () : (has_restoring => 1, standby => 0));
	$node->append_conf('postgresql.conf', "archive_mode = off\nfull_page_writes = off\nrecovery_target_action = promote\n$settings\n");
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not recovered';
	return $node;
}

sub finish
{
	my ($node, $name) = @_;
	write_everywhere($node);
	is_whole($node, "$name, written to");
	server_is_clean($node, $name);
	$node->stop('immediate');
	$node->clean_node;
	return;
}

my $backup = recovered('backup', '');
is_whole($backup, 'the backup alone');
finish($backup, 'the backup alone');

my $complete = recovered('complete', "recovery_target_timeline = 'current'");
is(contents($complete), $end, 'all of the log: the primary\'s rows');
is_whole($complete, 'all of the log');
finish($complete, 'all of the log');

for my $point (sort keys %noted)
{
	my $node = recovered($point, "recovery_target_name = '$point'");
	is(contents($node), $noted{$point}, "$point point: the rows as noted");
	is_whole($node, "$point point");
	finish($node, "$point point");
}

# The record named is the last that is redone.
my @records = (
	[ 'split of integers', 't_v', $begun ],
	[ 'split of texts', 't_s', $begun ],
	[ 'split of lists', 't_list', $begun ],
	[ 'removal', 't_s', q{record_type = 'VACUUM'} ],
	[ 'deletion of integers', 't_v', q{record_type = 'UNLINK'} ],
	[ 'deletion of texts', 't_s', q{record_type = 'UNLINK'} ]);
for my $case (@records)
{
	my ($name, $index, $condition) = @$case;
	my ($lsn, $block) = record($index, $condition);
	my $node = recovered($name =~ s/ /_/gr, "recovery_target_lsn = '$lsn'");
	my $file = $node->safe_psql('postgres', "SELECT pg_relation_filenode('$index')");
	like(slurp_file($node->logfile), qr/recovery stopping after WAL location \(LSN\) "\Q$lsn\E"/, "$name: recovered as far as that");
	is_whole($node, $name);
	my $written = $node->lsn('insert');
	write_everywhere($node);
	if ($condition eq $begun)
	{
		my $flushed = $node->lsn('flush');
		my $pattern = sprintf $placed . '(\D|$)', $file;
		$pattern =~ s/\(\\d\+\)/$block/;
		my $first = $node->safe_psql('postgres', <<"SQL");
SELECT description FROM pg_get_wal_records_info('$written', '$flushed')
WHERE resource_manager = 'fpbtree' AND block_ref ~ '$pattern' AND description ~ '^0: [^;]*split (begun|done)' ORDER BY start_lsn LIMIT 1
SQL
		like($first, qr/^0: split done; 1: /, "$name: the next writer finishes it");
	}
	finish($node, $name);
}
server_is_clean($primary, 'primary');
$primary->stop;
done_testing();
