# Texts under collations of the C library: one without rules orders them as their bytes, and whoever built an index on that
# is told when it no longer does; one with rules has sort keys, by which builds sort, and which prove nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $has_rules = `locale -a` =~ /^en_US\.utf-?8$/mi;

my $node = PostgreSQL::Test::Cluster->new('collations');
$node->init(extra => ['--encoding=UTF8', '--locale=C.UTF-8']);
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\nmax_parallel_maintenance_workers = 0\n");
$node->start;

# Texts of all kinds: words that rules order by more than one level, characters of one to four bytes, controls, and long
# ones that differ only at their ends.
my $texts = q{
	CASE n % 7
		WHEN 0 THEN (ARRAY['', ' ', '-', 'a', 'A', 'á', 'ab', 'a-b', 'a b', 'AB', 'aB', 'résumé', 'resume', 'Resume', 're-sume', E'\t', E'\x01', '_', '日本', '😀', 'zz', 'ZZ', 'co-op', 'coop', 'CO-OP'])[1 + n / 7 % 25]
		WHEN 1 THEN md5(n::text)
		WHEN 2 THEN left(md5((n / 49)::text), 3) || CASE WHEN n % 2 = 0 THEN '' ELSE '-' END || left(upper(md5(n::text)), 4)
		WHEN 3 THEN 'https://example.com/' || repeat('path/', 40 + 120 * (n / 7 % 2)) || n % 1000
		WHEN 4 THEN chr(1 + abs(hashint4(n)) % 55000) || chr(57344 + abs(hashint4(-n)) % 1000000) || 'x'
		WHEN 5 THEN repeat(chr(9 + n % 90), 1 + n % 400) || CASE WHEN n % 3 = 0 THEN 'é' ELSE 'e' END
		ELSE 'name ' || abs(hashint4(n)) % 5000
	END};

sub fill
{
	my ($database, $collation) = @_;
	$node->safe_psql($database, <<SQL);
CREATE EXTENSION IF NOT EXISTS fpbtree;
DROP TABLE IF EXISTS rows;
CREATE TABLE rows AS SELECT n AS id, n % 5 AS k, $texts COLLATE $collation AS v, left($texts, 60)::char(64) COLLATE $collation AS b FROM generate_series(1, 12000) n;
UPDATE rows SET v = NULL WHERE id % 1000 = 0;
VACUUM ANALYZE rows;
SQL
	return;
}

# What an index gives, in its order and by what is looked up, is what the table has.
sub is_right
{
	my ($name, $columns, @settings) = @_;
	my $settings = join '', map { "SET $_;" } @settings;
	$node->safe_psql('postgres', "DROP INDEX IF EXISTS i; $settings CREATE INDEX i ON rows USING fpbtree ($columns)");
	is($node->safe_psql('postgres', "SELECT count(*) FROM fpbtree_check('i', true)"), 0, "$name: sound");
	my ($first) = $columns =~ /^(\w+)/;
	answers_alike($node, $name,
		"SELECT $first, id FROM rows ORDER BY $columns, id",
		"SELECT id FROM rows WHERE $first >= 'coop' AND $first < 'name 3'",
		"SELECT id FROM rows WHERE $first IN ('résumé', 'a-b', 'AB', 'https://example.com/', 'name 77')") if $first ne 'k';
	answers_alike($node, $name, "SELECT id, v FROM rows WHERE k = 3 ORDER BY v, id", "SELECT id FROM rows WHERE k = 2 AND v > 'coop'") if $first eq 'k';
	return;
}

$node->safe_psql('postgres', q{CREATE COLLATION plain (provider = libc, locale = 'C.UTF-8')});

# The order of a collation without rules is that of the bytes.
like($node->safe_psql('postgres', <<SQL), qr/^1000\d{3}\|0$/, 'a million pairs of texts are ordered as their bytes are');
SELECT count(*), count(*) FILTER (WHERE (a COLLATE plain < b) <> (convert_to(a, 'UTF8') < convert_to(b, 'UTF8')))
  FROM (SELECT $texts AS a, lag($texts, 1 + abs(hashint4(-n)) % 40) OVER (ORDER BY hashint4(n)) AS b FROM generate_series(1, 1000100) n) pairs WHERE b IS NOT NULL
SQL

fill('postgres', 'plain');
is_right('byte order', 'v');
my $sizes = $node->safe_psql('postgres', <<SQL);
CREATE INDEX plain_idx ON rows USING fpbtree (v);
CREATE INDEX c_idx ON rows USING fpbtree (v COLLATE "C");
SELECT pg_relation_size('plain_idx') = pg_relation_size('c_idx')
SQL
is($sizes, 't', 'an index in byte order is as large as one under C');

SKIP:
{
	skip 'no locale en_US.UTF-8', 1 unless $has_rules;
	$node->safe_psql('postgres', q{CREATE COLLATION ruled (provider = libc, locale = 'en_US.utf8')});

	# As if the C library's locale had become another.
	$node->safe_psql('postgres', q{UPDATE pg_collation SET collcollate = 'en_US.utf8', collctype = 'en_US.utf8' WHERE collname = 'plain'});
	for my $statement ("SELECT count(*) FROM rows WHERE v = 'coop'", "INSERT INTO rows VALUES (1, 1, 'x', 'x')", 'VACUUM rows', q{SELECT * FROM fpbtree_check('plain_idx')})
	{
		my (undef, undef, $err) = $node->psql('postgres', "DROP INDEX IF EXISTS i; SET enable_seqscan = off; $statement");
		like($err, qr/collation does not order texts by their bytes any more\s+HINT:  Please REINDEX it\./, "refused: $statement");
	}
	$node->safe_psql('postgres', 'REINDEX INDEX plain_idx');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM fpbtree_check('plain_idx', true)}), 0, 'sound after REINDEX');
	answers_alike($node, 'after REINDEX', 'SELECT v, id FROM rows ORDER BY v, id');

	fill('postgres', 'ruled');
	is_right('rules', 'v');
	is_right('rules, descending', 'v DESC');
	is_right('rules, blanks', 'b');
	is_right('rules, behind an integer', 'k, v');
	is_right('rules, two columns', 'v, b');
	is_right('rules, little memory', 'v', q{maintenance_work_mem = '1MB'});
	is_right('rules, little memory, descending', 'v DESC', q{maintenance_work_mem = '1MB'});
	is_right('rules, in parallel', 'v', q{max_parallel_maintenance_workers = 2}, q{min_parallel_table_scan_size = 0});
	$node->safe_psql('postgres', 'DROP INDEX i');
	my (undef, undef, $err) = $node->psql('postgres', 'CREATE UNIQUE INDEX u ON rows USING fpbtree (v)');
	like($err, qr/could not create unique index "u"/, 'duplicates are noticed');

	# Builds sort compressed texts by their sort keys, too, and then ask the function about neighbours.
	my ($asked, $problems) = split /\n/, $node->safe_psql('postgres', <<'SQL');
CREATE TABLE long AS SELECT (md5(n::text) || repeat(' and so on', 100)) COLLATE ruled AS v FROM generate_series(1, 20000) n;
CREATE INDEX long_v ON long USING fpbtree (v);
SELECT calls FROM fpbtree_stat_compare('long_v');
SELECT count(*) FROM fpbtree_check('long_v', true);
SQL
	cmp_ok($asked, '>=', 19999, 'a build proves the order of long texts');
	cmp_ok($asked, '<', 60000, 'which it found by sort keys');
	is($problems, 0, 'long texts: sound');

	# Lookups of a session that knows most leaves call the function to prove guesses, and little else.
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE names AS SELECT n AS id, (initcap(translate(left(md5((n / 7)::text), 7), '0123456789', 'aeioulnrst')) || ' '
  || initcap(translate(left(md5(n::text), 9), '0123456789', 'aeioulnrst'))) COLLATE ruled AS v FROM generate_series(1, 1000000) n;
CREATE INDEX names_v ON names USING fpbtree (v);
VACUUM ANALYZE names;
SQL
	my ($found, $counts) = split /\n/, $node->safe_psql('postgres', <<'SQL');
SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0;
SELECT FROM (SELECT v FROM names WHERE id % 100 <> 50 OFFSET 0) s, LATERAL (SELECT id FROM names n WHERE n.v = s.v OFFSET 0) l OFFSET 10000000;
CREATE TEMP TABLE before AS SELECT * FROM fpbtree_stat_compare('names_v');
SELECT count(*) >= 10000 FROM (SELECT v FROM names WHERE id % 100 = 50 OFFSET 0) s, LATERAL (SELECT id FROM names n WHERE n.v = s.v OFFSET 0) l;
SELECT now.calls - before.calls || ' ' || now.guesses - before.guesses || ' ' || now.wrong_guesses - before.wrong_guesses
  FROM fpbtree_stat_compare('names_v') now, before;
SQL
	is($found, 't', 'names are found');
	my ($calls, $guesses, $wrong) = split / /, $counts;
	cmp_ok($calls, '<=', 4 * 10000, "four calls a lookup or fewer ($guesses guesses)");
	cmp_ok($guesses, '>=', 10000, 'pages are searched by guesses');
	cmp_ok(100 * $wrong, '<', $guesses, 'which are hardly ever wrong');

	# A database's own collation, of an encoding that says nothing: any bytes are a text.
	$node->safe_psql('postgres', q{CREATE DATABASE bytes ENCODING 'SQL_ASCII' LC_COLLATE 'en_US.utf8' LC_CTYPE 'en_US.utf8' TEMPLATE template0});
	$node->safe_psql('bytes', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE rows AS SELECT n AS id, convert_from(decode(h, 'hex'), 'SQL_ASCII') AS v
  FROM (SELECT n, md5(n::text) || left(md5((-n)::text), 2 * (n % 15)) AS h FROM generate_series(1, 6000) n) s
  WHERE h !~ '^(..)*00';
CREATE INDEX i ON rows USING fpbtree (v);
SQL
	is($node->safe_psql('bytes', q{SELECT count(*) FROM fpbtree_check('i', true)}), 0, 'texts of any bytes: sound');
	my $list = q{SELECT count(*), md5(string_agg(id::text, ',')) FROM (SELECT id FROM rows ORDER BY v, id) s};
	my $sorted = $node->safe_psql('bytes', "SET enable_indexscan = off; SET enable_indexonlyscan = off; $list");
	is($node->safe_psql('bytes', "SET enable_seqscan = off; SET enable_sort = on; $list"), $sorted, 'texts of any bytes: in order');
	like($sorted, qr{^5\d{3}\|}, 'many of them');
}
$node->stop;
done_testing();
