# Entries of dead rows make room for new ones before a page is split: in indexes with a log of their own, or none. On a
# standby, whoever may still see such a row is cancelled as by btree, and nobody else.
# Needs: pg_walinspect
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', "shared_buffers = 32MB\nautovacuum = off\nwal_keep_size = 512MB\n");
$primary->start;
my $rows = 4000;

# A table whose rows are updated, of which one index has the column that changes. Its pages have room, so that rows are not
# pruned by whoever reads them.
sub make_table
{
	my ($kind, $name, $method) = @_;
	$primary->safe_psql('postgres', <<"SQL");
CREATE $kind TABLE $name (id int, code text COLLATE "C", n int) WITH (autovacuum_enabled = off);
INSERT INTO $name SELECT i, 'code ' || lpad(i::text, 12, '0'), i FROM generate_series(1, $rows) i;
CREATE UNIQUE INDEX ${name}_id ON $name USING $method (id);
CREATE INDEX ${name}_code ON $name USING $method (code) INCLUDE (id);
CREATE INDEX ${name}_n ON $name USING $method (n);
SQL
	return;
}

# Each row gets so many new versions, whose key is another in the last index alone.
sub update_rows
{
	my ($name, $rounds) = @_;
	$primary->safe_psql('postgres', <<"SQL");
SET synchronous_commit = off; SET enable_seqscan = off;
DO \$\$ BEGIN
	FOR round IN 1 .. $rounds LOOP
		FOR part IN 0 .. 39 LOOP
			UPDATE $name SET n = n + $rows WHERE id BETWEEN part * $rows / 40 + 1 AND (part + 1) * $rows / 40;
			COMMIT;
		END LOOP;
	END LOOP;
END \$\$;
SQL
	return;
}

sub pages { return $primary->safe_psql('postgres', "SELECT pg_relation_size('$_[0]') / 8192") }

$primary->safe_psql('postgres', 'CREATE EXTENSION fpbtree; CREATE EXTENSION pg_walinspect');
make_table('', 'generic', 'fpbtree');
$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
$primary->restart;
make_table('', 'own', 'fpbtree');
make_table('', 'btree', 'btree');
make_table('UNLOGGED', 'unlogged', 'fpbtree');
my %growth;
for my $name ('generic', 'own', 'btree', 'unlogged')
{
	my @indexes = map { "${name}_$_" } 'id', 'code', 'n';
	my %before = map { $_ => pages($_) } @indexes;
	update_rows($name, 12);
	$growth{$_} = pages($_) / $before{$_} for @indexes;
	is($primary->safe_psql('postgres', "SELECT count(*) FROM $name WHERE n > 12 * $rows"), $rows, "$name: updated");
	next if $name eq 'btree';
	is_sound($primary, $name, @indexes);
	answers_alike($primary, $name, "SELECT id FROM $name WHERE id > 0 ORDER BY id", "SELECT n FROM $name WHERE n > 0", "SELECT code, id FROM $name WHERE code > ''");
}
note(join ', ', map { sprintf '%s %.2f', $_, $growth{$_} } sort keys %growth);
cmp_ok($growth{generic_id}, '>', 5, 'generic records: versions fill pages until VACUUM comes');
for my $name ('own', 'unlogged')
{
	cmp_ok($growth{"${name}_$_"}, '<', 1.5 * $growth{"btree_$_"}, "$name: the index on $_ grows no more than btree's") for 'id', 'code', 'n';
}

# What is logged says whom it is in the way of.
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = off\nmax_standby_streaming_delay = 0\nwal_receiver_status_interval = 1s\n");
$standby->start;
$primary->safe_psql('postgres', <<'SQL');
CREATE TABLE spare (id int) WITH (autovacuum_enabled = off, fillfactor = 40);
INSERT INTO spare SELECT generate_series(1, 2200);
CREATE UNIQUE INDEX spare_id ON spare USING fpbtree (id);
ALTER TABLE spare SET (fillfactor = 100);
SQL
catch_up($primary, $standby);

sub session
{
	my ($table) = @_;
	my $session = $standby->background_psql('postgres', on_error_stop => 0);
	$session->query("\\set VERBOSITY verbose\nBEGIN ISOLATION LEVEL REPEATABLE READ");
	$session->query("SELECT count(*) FROM $table");
	return $session;
}
my $old = session('spare');
my $from = $primary->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
# As DELETE and INSERT, so that the new rows go elsewhere and those pages of the table are left as they are.
my @parts = map { [ $_ * 50 + 1, ($_ + 1) * 50 ] } 0 .. 11;
my @changes = map { "DELETE FROM spare WHERE id BETWEEN $_->[0] AND $_->[1]; INSERT INTO spare SELECT generate_series($_->[0], $_->[1])" } @parts;
my $told = told_meanwhile($standby, $old, $primary, @changes);
my $to = $primary->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
my $records = "FROM pg_get_wal_records_info('$from', '$to')";
my $file = $primary->safe_psql('postgres', q{SELECT relfilenode FROM pg_class WHERE relname = 'spare'});
is($primary->safe_psql('postgres', "SELECT count(*) $records WHERE record_type ~ 'PRUNE' AND block_ref ~ '/$file '"), '0', 'no record of the table itself cancels anybody');
my $deletes = $primary->safe_psql('postgres', "SELECT min(description) $records WHERE resource_manager = 'fpbtree' AND record_type = 'DELETE' AND description ~ 'since'");
like($deletes, qr/^0: dead since transaction [1-9]\d*, remove \d+ of \d+ nodes$/, 'the record says since when its rows are dead');
like($told, qr/^ERROR:  40001: [^\n]*conflict with recovery\nDETAIL:  User query might have needed to see row versions that must be removed\./, 'who may see them is cancelled');
catch_up($primary, $standby);
is($standby->safe_psql('postgres', q{SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'}), '1', 'and it counts as such a conflict');

# A reader that came later stays.
my $young = session('spare');
$primary->safe_psql('postgres', 'INSERT INTO spare VALUES (-1)');
catch_up($primary, $standby);
is($young->query('SELECT count(*) FROM spare'), '2200', 'who came later is not');
$young->quit;
is_sound($standby, 'standby', 'spare_id', map { ("own_$_") } 'id', 'code', 'n');
answers_alike($standby, 'standby', 'SELECT id FROM spare WHERE id > 0 ORDER BY id', 'SELECT id FROM own WHERE id > 0 ORDER BY id');

# A crash in the midst of it.
my $load = start_load($primary, 2, 20, "\\set id random(1, $rows)\nUPDATE own SET n = n + 1 WHERE id = :id;\n" => 1);
for my $crash (1 .. 3)
{
	select undef, undef, undef, 1.5;
	kill_all($primary);
	$load->kill_kill;
	$primary->start;
	is_sound($primary, "crash $crash", map { "own_$_" } 'id', 'code', 'n');
	is($primary->safe_psql('postgres', 'SELECT count(DISTINCT id) FROM own'), $rows, "crash $crash: every row");
	answers_alike($primary, "crash $crash", 'SELECT id FROM own WHERE id > 0 ORDER BY id', 'SELECT n FROM own WHERE n > 0');
	$load = start_load($primary, 2, 20, "\\set id random(1, $rows)\nUPDATE own SET n = n + 1 WHERE id = :id;\n" => 1) if $crash < 3;
}
catch_up($primary, $standby);
is_sound($standby, 'standby, at last', map { "own_$_" } 'id', 'code', 'n');
server_is_clean($primary, 'primary');
server_is_clean($standby, 'standby');
$standby->stop;
$primary->stop;
done_testing();
