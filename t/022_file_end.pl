# The end of an index's file is given back when it is free: VACUUM moves what is in use there, and cuts the rest off, where
# nobody is in the way. Who remembers pages that are gone finds his way all the same, on a standby and after a crash, too.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "autovacuum = off\nmax_wal_size = 4GB\nwal_keep_size = 8GB\nmax_standby_streaming_delay = -1\nsynchronous_commit = off\n");
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION fpbtree; CREATE TABLE generic (n int, t text); CREATE INDEX generic_n ON generic USING fpbtree (n)');
$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'\nwal_consistency_checking = 'fpbtree'\n");
$primary->restart;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', 'CREATE TABLE own (n int, t text); CREATE INDEX own_n ON own USING fpbtree (n); CREATE INDEX own_t ON own USING fpbtree (t)');

sub pages
{
	my ($node, $index) = @_;
	return $node->safe_psql('postgres', "SELECT size / 8192 FROM pg_stat_file(pg_relation_filepath('$index'))");
}

# Rows that are inserted one after the other, so that the last page of every level is near the end of the file.
sub fill
{
	my ($table, $from, $to) = @_;
	return $primary->safe_psql('postgres', "INSERT INTO $table SELECT i, lpad(i::text, 9, '0') FROM generate_series($from, $to) i");
}

my @indexes = ('own_n', 'own_t', 'generic_n');
my $rows = 200_000;
fill($_, 1, $rows) for 'own', 'generic';
my %grown = map { $_ => pages($primary, $_) } @indexes;

# Sessions that know where the leaves are, and where the last row went.
my $look = join ' ', map { "SET enable_seqscan = off; SELECT count(*) FROM $_ WHERE n IN (" . join(', ', map { 1 + $_ * 4_973 } 0 .. 40) . ');' } 'own', 'generic';
my %sessions = map { $_->name => $_->background_psql('postgres', on_error_stop => 0) } $primary, $standby;
catch_up($primary, $standby);
$sessions{$_}->query($look) for keys %sessions;
$sessions{primary}->query("INSERT INTO own SELECT $rows + i, '' FROM generate_series(1, 3) i; INSERT INTO generic SELECT $rows + i, '' FROM generate_series(1, 3) i");

# Cut off everywhere but where it may not be.
sub keeps
{
	my ($why, $vacuum) = @_;
	$primary->safe_psql('postgres', $vacuum);
	is(pages($primary, 'own_n'), $grown{own_n}, "$why: the file stays as it is");
	return;
}
$primary->safe_psql('postgres', "DELETE FROM $_ WHERE n > 500") for 'own', 'generic';
$primary->safe_psql('postgres', 'ALTER TABLE own SET (vacuum_truncate = off)');
keeps('vacuum_truncate is off', 'VACUUM (PARALLEL 0) own');
$primary->safe_psql('postgres', 'ALTER TABLE own RESET (vacuum_truncate)');
keeps('a parallel VACUUM', 'SET min_parallel_index_scan_size = 0; INSERT INTO own VALUES (1, 1); DELETE FROM own WHERE t = \'1\'; VACUUM (PARALLEL 2) own');
my $reader = $primary->background_psql('postgres', on_error_stop => 0);
$reader->query('BEGIN; SET enable_seqscan = off; SELECT count(*) FROM own WHERE n = 1');
keeps('a reader', 'VACUUM (PARALLEL 0) own');
$reader->query('COMMIT');
$reader->quit;

# A reader on the standby is waited for, or cancelled, before that happens there.
my $late = $standby->background_psql('postgres', on_error_stop => 0);
$late->query('BEGIN; SET enable_seqscan = off; SELECT count(*) FROM own WHERE n = 1');
$primary->safe_psql('postgres', "VACUUM (PARALLEL 0) $_") for 'own', 'generic';
for my $index (@indexes)
{
	# The last leaf of an inner page that has others stays where it is: how far back depends on how much of a text is stored.
	my $most = $index eq 'own_t' ? 0.75 * $grown{$index} : 12;
	cmp_ok(pages($primary, $index), '<=', $most, "$index: $grown{$index} pages before, few now");
}
$primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'fpbtree', '')});
is(pages($standby, 'own_n'), $grown{own_n}, 'the standby waits for its reader');
like($late->query('SET enable_seqscan = off; SELECT count(*) FROM own WHERE n <= 500'), qr/500/, 'who reads on');
$late->query('COMMIT');
$late->quit;
catch_up($primary, $standby);
for my $node ($primary, $standby)
{
	my $name = $node->name;
	is(pages($node, $_), pages($primary, $_), "$name: $_ has as many pages") for @indexes;
	$sessions{$name}->{stderr} = '';
	my $found = $sessions{$name}->query($look);
	like($found, qr/^1$.*^1$/ms, "$name: one of the rows looked up is left in each table");
	is($sessions{$name}->{stderr}, '', "$name: and none is missed where it was");
}
$sessions{primary}->query("INSERT INTO own SELECT $rows + i, '' FROM generate_series(4, 6) i; INSERT INTO generic SELECT $rows + i, '' FROM generate_series(4, 6) i");
is($sessions{primary}->{stderr}, '', 'rows are inserted where the last one went');
fill($_, 1_000, 50_000) for 'own', 'generic';
catch_up($primary, $standby);
$sessions{$_}->query($look) for keys %sessions;
is($sessions{$_}->{stderr}, '', "$_: in a file that has grown again, too") for keys %sessions;
$_->quit for values %sessions;
is_sound($_, $_->name, @indexes) for $primary, $standby;
answers_alike($_, $_->name, map { "SELECT n FROM $_ WHERE n > 0 ORDER BY n" } 'own', 'generic') for $primary, $standby;

# All gone, and a crash right after.
$primary->safe_psql('postgres', "DELETE FROM $_; VACUUM (PARALLEL 0) $_") for 'own', 'generic';
cmp_ok(pages($primary, $_), '<=', 6, "$_: hardly a page") for @indexes;
kill_all($primary);
$primary->start;
is_sound($primary, 'after a crash', @indexes);
fill($_, 1, 60_000) for 'own', 'generic';
is_sound($primary, 'filled again', @indexes);
catch_up($primary, $standby);
is_sound($standby, 'standby', @indexes);
answers_alike($_, $_->name . ' in the end', map { "SELECT n FROM $_ WHERE n > 0 ORDER BY n" } 'own', 'generic') for $primary, $standby;

# Without the library an index with its log cannot be written to: nothing is moved then, and VACUUM has nothing to do.
$primary->safe_psql('postgres', 'SET min_parallel_index_scan_size = 0; DELETE FROM own WHERE n > 100; VACUUM (PARALLEL 2) own');
my $left = pages($primary, 'own_n');
cmp_ok($left, '>', 20, 'a free end of the file');
$primary->append_conf('postgresql.conf', "shared_preload_libraries = ''\nwal_consistency_checking = ''");
$primary->restart;
is(($primary->psql('postgres', 'VACUUM (PARALLEL 0, FREEZE) own'))[0], 0, 'VACUUM without the library');
is(pages($primary, 'own_n'), $left, 'leaves it as it is');
$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
$primary->restart;
$primary->safe_psql('postgres', 'VACUUM (PARALLEL 0) own');
cmp_ok(pages($primary, 'own_n'), '<=', 6, 'and with it cuts it off');
is_sound($primary, 'shortened', @indexes);

# Temporary tables have files, too.
is($primary->safe_psql('postgres', q{
	CREATE TEMP TABLE temporary AS SELECT i AS n FROM generate_series(1, 50000) i; CREATE INDEX temporary_n ON temporary USING fpbtree (n);
	DELETE FROM temporary; VACUUM temporary; INSERT INTO temporary SELECT generate_series(1, 1000); SET enable_seqscan = off;
	SELECT pg_relation_size('temporary_n') / 8192 < 12, count(*) FROM temporary WHERE n > 0}), 't|1000', 'temporary tables');
server_is_clean($_, $_->name) for $primary, $standby;
$standby->stop;
$primary->stop;
done_testing();
