# Indexes built by parallel workers: as many as for btree, the same on a standby and after a crash, cancelled in each
# phase.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "autovacuum = off\njit = off\nmax_parallel_maintenance_workers = 3\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE big (id int, v int, u uuid, t text);
INSERT INTO big SELECT i, hashint4(i), md5(i::text)::uuid, md5(i::text) FROM generate_series(1, 400000) i;
SQL
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

# How many workers does a build ask for? Each method's message says so.
sub planned
{
	my ($method, $settings) = @_;
	my (undef, undef, $err) = $node->psql('postgres', "SET client_min_messages = debug1; $settings; CREATE INDEX big_planned ON big USING $method (v); DROP INDEX big_planned");
	my ($planned) = $err =~ /$_[2]/;
	return $planned // 0;
}
for my $settings (
	'SET maintenance_work_mem = \'1GB\'', 'SET maintenance_work_mem = \'100MB\'', 'SET maintenance_work_mem = \'64MB\'',
	'SET maintenance_work_mem = \'63MB\'', 'SET max_parallel_maintenance_workers = 0', 'SET min_parallel_table_scan_size = \'1GB\'',
	'SET maintenance_work_mem = \'1GB\'; SET min_parallel_table_scan_size = 0')
{
	my $btree = planned('btree', $settings, qr/with request for (\d+) parallel worker/);
	my $ours = planned('fpbtree', $settings, qr/launched \d+ parallel workers? to build index "big_planned" \(planned: (\d+)\)/);
	is($ours, $btree, "$settings: $btree workers, as for btree");
}
my (undef, undef, $err) = $node->psql('postgres', q{SET maintenance_work_mem = '1GB'; SET min_parallel_table_scan_size = 0; SET client_min_messages = debug1; CREATE INDEX big_v ON big USING fpbtree (v)});
like($err, qr/launched 3 parallel workers to build index "big_v" \(planned: 3\)/, 'three workers are launched');

# What they have logged.
my @indexes = ('big_v', 'big_u', 'big_t', 'big_id', 'big_small');
$node->safe_psql('postgres', <<'SQL');
ALTER TABLE big SET (parallel_workers = 3);
CREATE UNIQUE INDEX big_u ON big USING fpbtree (u);
CREATE INDEX big_t ON big USING fpbtree (t) INCLUDE (id);
CREATE INDEX CONCURRENTLY big_id ON big USING fpbtree (id);
SET maintenance_work_mem = '1MB';
CREATE INDEX big_small ON big USING fpbtree (v DESC);
SQL
is_sound($node, 'built', @indexes);
catch_up($node, $standby);
is_sound($standby, 'on the standby', @indexes);
kill_all($node);
$node->start;
is_sound($node, 'after a crash', @indexes);
answers_alike($node, 'after a crash', 'SELECT v FROM big WHERE v BETWEEN 0 AND 20000000', q{SELECT id FROM big WHERE u < '01000000-0000-0000-0000-000000000000'});

# Cancelled wherever it is.
my $files = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir('base/' || (SELECT oid FROM pg_database WHERE datname = 'postgres'))});
for my $memory ('1MB', '1GB')
{
	for my $timeout (map { 15 * $_ } 1 .. 12)
	{
		my ($status, $out, $err) = $node->psql('postgres', "SET statement_timeout = $timeout; SET maintenance_work_mem = '$memory'; CREATE INDEX big_cancelled ON big USING fpbtree (v)");
		$node->safe_psql('postgres', 'DROP INDEX big_cancelled') if $status == 0;
		like($err, $status == 0 ? qr/^$/ : qr/^\S*\s*ERROR:  canceling statement due to statement timeout/, "$memory, $timeout ms: cancelled or done");
	}
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'}), '0', 'no worker is left');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_ls_tmpdir()'), '0', 'no temporary files are left');
$node->safe_psql('postgres', 'CHECKPOINT');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir('base/' || (SELECT oid FROM pg_database WHERE datname = 'postgres'))}), $files, 'no files of indexes are left');
# One of four processes has a quarter of the entries, ten bytes each, in files of at most 640 kB.
my (undef, undef, $limited) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET maintenance_work_mem = '1MB';\nSET temp_file_limit = '768kB';\nCREATE INDEX big_limited ON big USING fpbtree (v)");
like($limited, qr/ERROR:  53400/, 'all keep to temp_file_limit, in all of their files');
is_sound($node, 'after cancelled builds', @indexes);
server_is_clean($node, 'primary');
server_is_clean($standby, 'standby');
$standby->stop;
$node->stop;
done_testing();
