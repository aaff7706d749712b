# Each of the server's settings that change what is logged, once, with a crash at its end: wal_level = minimal,
# full_page_writes = off, wal_compression; on a server with checksums, which are looked at when all is done. Beside that,
# unlogged and temporary indexes in crashes.
# Needs: pg_walinspect
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;
use FpbtreeLoad;

my $node = PostgreSQL::Test::Cluster->new('settings');
$node->init(extra => ['-k']);
$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 8MB
autovacuum = off
log_statement = none
wal_level = minimal
max_wal_senders = 0
wal_keep_size = 4GB
CONF
$node->start;
make_loaded($node, 30000);

# Killed, and come back.
sub crash
{
	kill_all($node);
	$node->start;
	return;
}

sub records
{
	my ($from, $condition) = @_;
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS flushed (); DROP TABLE flushed');
	my $to = $node->lsn('flush');
	return $node->safe_psql('postgres', "SELECT count(*) FROM pg_get_wal_records_info('$from', '$to') WHERE resource_manager = 'fpbtree' AND $condition");
}

# Nothing is logged of what is made and filled in one transaction; what is smaller than wal_skip_threshold is logged at its
# end, the rest is flushed.
for my $threshold ('0', '1GB')
{
	my $from = $node->lsn('insert');
	$node->safe_psql('postgres', <<"SQL");
DROP TABLE IF EXISTS made, emptied, saved;
CREATE TABLE emptied (v int, s text COLLATE "C");
CREATE INDEX emptied_v ON emptied USING fpbtree (v);
CREATE INDEX emptied_s ON emptied USING fpbtree (s) INCLUDE (v);
CREATE TABLE saved (LIKE emptied);
CREATE INDEX saved_v ON saved USING fpbtree (v);
SQL
	$node->safe_psql('postgres', 'INSERT INTO saved SELECT i, i FROM generate_series(1, 100) i');
	is(records($from, 'true') >= 100, 1, "minimal, $threshold: a transaction of its own is logged");
	$node->safe_psql('postgres', 'INSERT INTO emptied SELECT -i, -i FROM generate_series(1, 500) i');
	$from = $node->lsn('insert');
	$node->safe_psql('postgres', <<"SQL");
SET wal_skip_threshold = '$threshold';
BEGIN;
CREATE TABLE made (v int, s text COLLATE "C");
CREATE INDEX made_v ON made USING fpbtree (v);
CREATE INDEX made_s ON made USING fpbtree (s) INCLUDE (v);
INSERT INTO made SELECT hashint4(i), md5(i::text) FROM generate_series(1, 20000) i;
DELETE FROM made WHERE v % 7 = 0;
COMMIT;
BEGIN;
TRUNCATE emptied;
INSERT INTO emptied SELECT hashint4(i), md5(i::text) FROM generate_series(1, 20000) i;
COMMIT;
BEGIN;
SAVEPOINT one;
TRUNCATE saved;
INSERT INTO saved SELECT i, i FROM generate_series(1, 20000) i;
ROLLBACK TO one;
COMMIT;
SQL
	is(records($from, 'true'), '0', "minimal, $threshold: no records of what is made and filled in one transaction");
	my $made = $node->safe_psql('postgres', 'SELECT count(*) FROM made');
	crash();
	is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM made), (SELECT count(*) FROM emptied), (SELECT count(*) FROM saved)'),
		"$made|20000|100", "minimal, $threshold: every row");
	# And written to, with records, and a crash again.
	for my $name ("minimal, $threshold", "minimal, $threshold, written to")
	{
		is_sound($node, $name, qw(made_v made_s emptied_v emptied_s saved_v));
		answers_alike($node, $name, 'SELECT v FROM made WHERE v > 0 ORDER BY v', q{SELECT s, v FROM made WHERE s > '4'},
			'SELECT v FROM emptied WHERE v < 0', q{SELECT s FROM emptied WHERE s < 'a' ORDER BY s}, 'SELECT v FROM saved WHERE v > 0');
		last if $name =~ /written/;
		$node->safe_psql('postgres', "INSERT INTO $_ SELECT hashint4(i), md5(i::text) FROM generate_series(20001, 22000) i") for qw(made emptied saved);
		$node->safe_psql('postgres', 'DELETE FROM emptied WHERE v > 0');
		$node->safe_psql('postgres', 'VACUUM emptied');
		crash();
	}
}

# Unlogged indexes are empty after a crash, temporary ones gone.
$node->safe_psql('postgres', <<'SQL');
CREATE UNLOGGED TABLE u (v int, s text COLLATE "C");
CREATE INDEX u_v ON u USING fpbtree (v);
CREATE INDEX u_s ON u USING fpbtree (s) INCLUDE (v);
INSERT INTO u SELECT hashint4(i), md5(i::text) FROM generate_series(1, 20000) i;
SQL
my $from = $node->lsn('insert');
my $temporary = <<'SQL';
CREATE TEMP TABLE x (v int, s text COLLATE "C");
CREATE INDEX x_v ON x USING fpbtree (v);
CREATE INDEX x_s ON x USING fpbtree (s) INCLUDE (v);
INSERT INTO x SELECT hashint4(i), md5(i::text) FROM generate_series(1, 20000) i;
DELETE FROM x WHERE v < 0;
SET enable_seqscan = off;
SQL
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query($temporary);
$session->query('VACUUM x');
is($session->query(q{SELECT count(*) FROM (SELECT fpbtree_check('x_v', true) UNION ALL SELECT fpbtree_check('x_s', true)) x}), '0', 'temporary: sound');
$node->safe_psql('postgres', 'DELETE FROM u WHERE v < 0');
$node->safe_psql('postgres', 'VACUUM u');
is_sound($node, 'unlogged', 'u_v', 'u_s');
is(records($from, 'true'), '0', 'unlogged and temporary: no records');
my $base = $node->data_dir . '/base/' . $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'postgres'});
cmp_ok(temporary_files($base), '>=', 3, 'temporary: files');
kill_all($node);
eval { $session->quit };
$node->start;
is(temporary_files($base), 0, 'temporary: no file is left after a crash');
is($node->safe_psql('postgres', "$temporary SELECT count(*) FROM x WHERE v >= 0"),
	$node->safe_psql('postgres', 'SELECT count(*) FROM generate_series(1, 20000) i WHERE hashint4(i) >= 0'), 'temporary: made anew');
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', 'unlogged: empty after a crash');
is_sound($node, 'unlogged, after a crash', 'u_v', 'u_s');
$node->safe_psql('postgres', 'INSERT INTO u SELECT hashint4(i), md5(i::text) FROM generate_series(1, 5000) i');
is_sound($node, 'unlogged, filled again', 'u_v', 'u_s');
answers_alike($node, 'unlogged, filled again', 'SELECT v FROM u WHERE v > 0', q{SELECT s, v FROM u WHERE s > '5' ORDER BY s});

sub temporary_files
{
	my ($directory) = @_;
	opendir my $files, $directory or die "$directory: $!";
	return scalar grep { /^t\d+_\d+/ } readdir $files;
}

# Under the load.
for my $case (
	[ 'full_page_writes = off', 'wal_compression = off', 'fpi_length > 0', 0 ],
	[ 'full_page_writes = on', 'wal_compression = pglz', q{block_ref ~ 'method: pglz'}, 1 ])
{
	my ($writes, $compression, $condition, $some) = @$case;
	my $name = "$writes, $compression";
	$node->append_conf('postgresql.conf', "wal_level = replica\n$writes\n$compression");
	$node->restart;
	for my $round (1, 2)
	{
		my $start = $node->lsn('insert');
		my $pgbench = start_writing($node);
		select undef, undef, undef, 2.5;
		$node->safe_psql('postgres', 'CHECKPOINT') if $round == 2;
		select undef, undef, undef, 0.5;
		cmp_ok(records($start, 'true'), '>', 1000, "$name: under load, round $round");
		is(records($start, $condition) > 0 ? 1 : 0, $some, "$name: it is as set, round $round: $condition");
		kill_all($node);
		$pgbench->finish;
		$node->start;
		is_whole($node, "$name, crashed, round $round");
	}
	write_everywhere($node);
	is_whole($node, "$name, written to");
}
server_is_clean($node, 'the server');
$node->stop;
command_like([ 'pg_checksums', '--check', '-D', $node->data_dir ], qr/Bad checksums:\s+0\n/, 'checksums');
done_testing();
