# An index of another format is refused with a hint, whoever comes to it. It can be dropped, and REINDEX makes it one of
# this version's.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $page_size = 8192;
# In a page, the first byte of the layout it says it has.
my $format_at = 32;

my $node = PostgreSQL::Test::Cluster->new('formats');
$node->init(extra => `initdb --help` =~ /--no-data-checksums/ ? ['--no-data-checksums'] : []);
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE rows AS SELECT i AS id, i % 7 AS k, 'text ' || i AS t FROM generate_series(1, 3000) i;
CREATE INDEX number ON rows USING fpbtree (id);
CREATE INDEX words ON rows USING fpbtree (t);
CREATE INDEX goes ON rows USING fpbtree (k);
SQL

# Makes all pages of an index, or only those behind its meta page, say that they have this format.
sub set_format
{
	my ($index, $format, $first) = @_;
	my $path = $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$index')");
	$node->stop;
	open my $file, '+<:raw', $path or die "$path: $!";
	for (my $at = $first * $page_size; $at < -s $path; $at += $page_size)
	{
		seek $file, $at + $format_at, 0;
		print $file chr $format;
	}
	close $file;
	$node->start;
}

# What a statement says where sequential scans are not to be used.
sub said
{
	my ($statement) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; $statement");
	return $status ? $err : $out;
}

for my $index ('number', 'words')
{
	my $query = $index eq 'number' ? 'SELECT count(*) FROM rows WHERE id BETWEEN 100 AND 199' : "SELECT count(*) FROM rows WHERE t = 'text 77'";
	my $right = $index eq 'number' ? 100 : 1;
	is(said($query), $right, "$index answers");
	for my $first (0, 1)
	{
		set_format($index, 1, $first);
		for my $statement ($query, "INSERT INTO rows VALUES (5, 5, 'text')", $first ? () : "SELECT * FROM fpbtree_check('$index')")
		{
			my $message = said($statement);
			like($message, qr/ERROR:  index "$index" has format 1, that of an earlier version\s+HINT:  Please REINDEX it\./, "refused: $statement");
		}
		like(said("SELECT string_agg(what, ',') FROM fpbtree_check('$index')"), qr/page has an unknown format version/, 'the check says so, too') if $first;
		$node->safe_psql('postgres', "REINDEX INDEX $index");
		is(said($query), $right, "$index answers after REINDEX");
		is(said("SELECT count(*) FROM fpbtree_check('$index', true)"), 0, 'and is sound');
	}
	set_format($index, 77, 1);
	like(said($query), qr/ERROR:  index "$index" block \d+ has format 77, which this version does not know\s+HINT:  Install/, 'that of a later version');
	$node->safe_psql('postgres', "REINDEX INDEX CONCURRENTLY $index");
	is(said($query), $right, "$index answers after REINDEX CONCURRENTLY");
}
set_format('goes', 1, 0);
$node->safe_psql('postgres', 'DROP INDEX goes');
$node->safe_psql('postgres', "INSERT INTO rows VALUES (5, 5, 'text'); VACUUM rows");
is(said('SELECT count(*) FROM rows WHERE id = 5'), 2, 'the others go on');
$node->stop;
done_testing();
