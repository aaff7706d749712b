# The number of the resource manager of an index's own log: two libraries with the same one, and an index that was built
# under another one.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('manager');
$node->init(extra => `initdb --help` =~ /--no-data-checksums/ ? ['--no-data-checksums'] : []);
$node->append_conf('postgresql.conf', "autovacuum = off\nshared_preload_libraries = 'fpbtree'\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE rows AS SELECT i AS id, i % 7 AS k FROM generate_series(1, 3000) i;
CREATE INDEX rows_id ON rows USING fpbtree (id);
SET fpbtree.custom_scans = off;
SQL
my ($number) = $node->safe_psql('postgres', q{SELECT fpbtree_picture('rows_id', 0)}) =~ /own, resource manager (\d+)/;
is($number, $ENV{FPBTREE_RMGR_ID} // 128, 'the meta page has the number');

# What the meta page says of the number becomes another one.
sub set_number
{
	my ($number) = @_;
	my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('rows_id')});
	$node->stop;
	open my $file, '+<:raw', $path or die "$path: $!";
	seek $file, 79, 0;
	print $file chr $number;
	close $file;
	$node->start;
	return;
}

sub shown
{
	my ($picture) = $node->safe_psql('postgres', q{SELECT fpbtree_picture('rows_id', 0)}) =~ /own, resource manager (\d+)/;
	return $picture;
}

# Records of this library are under its own number: the index is used as any other, and recovered.
my $count = q{SET enable_seqscan = off; SELECT count(*) FROM rows WHERE id BETWEEN 100 AND 5000};
my $rows = 2901;
for my $case ([ 0, 128 ], [ 200, 200 ])
{
	my ($stored, $read) = @$case;
	set_number($stored);
	is(shown(), $read, "$stored: the number");
	is($node->safe_psql('postgres', $count), $rows, "$stored: answers");
	$node->safe_psql('postgres', 'CHECKPOINT; INSERT INTO rows SELECT 3000 + i, i FROM generate_series(1, 500) i');
	$rows += 500;
	kill_all($node);
	$node->start;
	is($node->safe_psql('postgres', $count), $rows, "$stored: answers after a crash");
	is_sound($node, $stored, 'rows_id');
}
$node->safe_psql('postgres', 'REINDEX INDEX rows_id');
is(shown(), $number, 'REINDEX makes it this library\'s');
set_number(5);
my ($status, $out, $err) = $node->psql('postgres', $count);
like($err, qr/ERROR:  index "rows_id" block 0: meta page names an unknown log\nHINT:  Please REINDEX it\./, 'no extension can have that one');
$node->safe_psql('postgres', 'REINDEX INDEX rows_id');
is($node->safe_psql('postgres', $count), $rows, 'and REINDEX helps');
server_is_clean($node, 'numbers');

SKIP:
{
	skip 'no C compiler', 3 if system('cc --version >/dev/null 2>&1') != 0;
	my $other = PostgreSQL::Test::Utils::tempdir . '/other_manager';
	append_to_file("$other.c", <<"C");
#include "postgres.h"
#include "access/xlog_internal.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

static void redo(XLogReaderState *record) {}

void _PG_init(void)
{
    static RmgrData manager = {.rm_name = "other", .rm_redo = redo};
    RegisterCustomRmgr($number, &manager);
}
C
	chomp(my $headers = `pg_config --includedir-server`);
	BAIL_OUT('the other library cannot be made') if system("cc -shared -fPIC -I'$headers' -o '$other.so' '$other.c'") != 0;
	$node->stop;
	my $said = sub {
		my ($libraries) = @_;
		my $from = -s $node->logfile;
		$node->append_conf('postgresql.conf', "shared_preload_libraries = '$libraries'\n");
		return $node->start(fail_ok => 1) ? 'started' : substr slurp_file($node->logfile), $from;
	};
	like($said->("$other.so,fpbtree"),
		qr/FATAL:  fpbtree cannot log: resource manager $number is "other"\n.*DETAIL:  Another library.*\n.*HINT:  Take one of them out, or build fpbtree with another number/,
		'a clash is told, with what to do');
	like($said->("fpbtree,$other.so"), qr/FATAL:  failed to register custom resource manager "other" with ID $number/, 'the server tells the other one');
	is($said->('fpbtree'), 'started', 'alone it starts');
	$node->stop;
}
done_testing();
