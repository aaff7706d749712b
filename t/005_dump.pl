# pg_dump and restore; the extension created, moved, dropped.
# Needs: citext ltree seg
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('dump');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE t (id int, v int, d timestamptz, u uuid, b bool, active bool);
INSERT INTO t SELECT i, i % 1000, timestamptz '2020-01-01' + i * interval '1 hour', md5(i::text)::uuid, i % 2 = 0, i % 5 = 0 FROM generate_series(1, 5000) i;
CREATE INDEX t_v ON t USING fpbtree (v);
CREATE INDEX t_desc ON t USING fpbtree (d DESC NULLS LAST) WITH (fillfactor = '70');
CREATE INDEX t_list ON t USING fpbtree (b, v DESC, id NULLS FIRST);
CREATE INDEX t_part ON t USING fpbtree (u) WITH (deduplicate_items = off) WHERE active;
CREATE INDEX t_expression ON t USING fpbtree ((v + id));
ALTER TABLE t CLUSTER ON t_v;
CREATE TABLE e (v int, EXCLUDE USING fpbtree (v WITH =));
INSERT INTO e SELECT generate_series(1, 100);
CREATE TABLE p (id int, v int) PARTITION BY LIST (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
CREATE INDEX p_v ON p USING fpbtree (v);
INSERT INTO p SELECT 1, i FROM generate_series(1, 1000) i;
CREATE MATERIALIZED VIEW m AS SELECT v FROM t;
CREATE INDEX m_v ON m USING fpbtree (v);
COMMENT ON INDEX t_v IS 'an index';
SQL

my $definitions = q{SELECT indexrelid::regclass, pg_get_indexdef(indexrelid), indisclustered, obj_description(indexrelid)
	FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam WHERE amname = 'fpbtree' ORDER BY indexrelid::regclass::text};
my $file = PostgreSQL::Test::Utils::tempdir . '/dump.sql';
my @connection = ('-h', $node->host, '-p', $node->port);
command_ok([ 'pg_dump', @connection, '-f', $file, 'postgres' ], 'pg_dump');
my $dump = slurp_file($file);
like($dump, qr/^CREATE EXTENSION IF NOT EXISTS fpbtree WITH SCHEMA public;$/m, 'the extension is dumped');
like($dump, qr/^CREATE INDEX t_desc ON public\.t USING fpbtree \(d DESC NULLS LAST\) WITH \(fillfactor='70'\);$/m, 'an index is dumped');
like($dump, qr/^CREATE INDEX t_part ON public\.t USING fpbtree \(u\) WITH \(deduplicate_items=off\) WHERE active;$/m, 'a parameter without effect is dumped, too');
like($dump, qr/^CREATE INDEX t_list ON public\.t USING fpbtree \(b, v DESC, id NULLS FIRST\);$/m, 'a list is dumped');
like($dump, qr/EXCLUDE USING fpbtree \(v WITH =\)/, 'a constraint is dumped');
unlike($dump, qr/CREATE (OPERATOR|ACCESS METHOD|FUNCTION)/, 'the extension\'s own objects are not');

$node->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', @connection, '-f', $file, '-o', '/dev/null', 'restored' ], 'restore');
is($node->safe_psql('restored', $definitions), $node->safe_psql('postgres', $definitions), 'restored: the same indexes');
my @indexes = split /\n/, $node->safe_psql('postgres', q{SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'fpbtree' AND relkind = 'i'});
is(scalar(@indexes), 8, 'all of them');
is($node->safe_psql('restored', "SELECT count(*) FROM fpbtree_check('$_', true)"), '0', "restored: $_ is sound") for @indexes;
my $answers = 'SET enable_seqscan = off; SELECT count(*), sum(id) FROM t WHERE v BETWEEN 5 AND 300; SELECT count(*) FROM t WHERE b < (SELECT true) AND v > 7; SELECT sum(v) FROM m WHERE v < 100; SELECT sum(v) FROM p WHERE v < 100';
is($node->safe_psql('restored', $answers), $node->safe_psql('postgres', $answers), 'restored: the same answers');

# The other formats, in parallel.
my $directory = PostgreSQL::Test::Utils::tempdir . '/dump';
command_ok([ 'pg_dump', @connection, '-F', 'directory', '-j', '2', '-f', $directory, 'postgres' ], 'pg_dump into a directory');
$node->safe_psql('postgres', 'CREATE DATABASE parallel');
command_ok([ 'pg_restore', @connection, '-j', '2', '-d', 'parallel', $directory ], 'pg_restore with two jobs');
is($node->safe_psql('parallel', $definitions), $node->safe_psql('postgres', $definitions), 'restored in parallel: the same indexes');
$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE restored');
is($node->safe_psql('copied', "SELECT count(*) FROM fpbtree_check('$_', true)"), '0', "database copied: $_ is sound") for @indexes;

# DROP EXTENSION.
my ($status, $out, $err) = $node->psql('restored', "\\set VERBOSITY sqlstate\nDROP EXTENSION fpbtree");
like($err, qr/2BP01/, 'the extension is not dropped from under its indexes');
($status, $out, $err) = $node->psql('restored', "\\set VERBOSITY sqlstate\nDROP ACCESS METHOD fpbtree CASCADE");
like($err, qr/2BP01/, 'nor the method from under its extension');
$node->safe_psql('restored', 'DROP EXTENSION fpbtree CASCADE');
is($node->safe_psql('restored', q{SELECT count(*) FROM pg_index WHERE indrelid IN ('t'::regclass, 'e'::regclass, 'p'::regclass, 'p_1'::regclass, 'm'::regclass)}), '0', 'CASCADE takes the indexes along');
is($node->safe_psql('restored', 'SELECT count(*) FROM t'), '5000', 'and leaves the tables');
is($node->safe_psql('restored', q{SELECT (SELECT count(*) FROM pg_am WHERE amname = 'fpbtree') + (SELECT count(*) FROM pg_proc WHERE proname ~ '^fpbtree')}), '0', 'nothing of it stays');

# Again, elsewhere: its classes are found wherever it is, its functions by their names.
$node->safe_psql('restored', q{CREATE SCHEMA "a schema"; CREATE EXTENSION fpbtree SCHEMA "a schema"});
$node->safe_psql('restored', 'CREATE INDEX t_v ON t USING fpbtree (v, b DESC)');
is($node->safe_psql('restored', q{SELECT count(*) FROM "a schema".fpbtree_check('t_v', true)}), '0', 'in a schema of its own');
is($node->safe_psql('restored', q{SELECT entries FROM "a schema".fpbtree_stats('t_v')}), '5000', 'in a schema of its own: statistics');
is($node->safe_psql('restored', q{SET search_path = pg_catalog; SET enable_seqscan = off; SELECT count(*) FROM public.t WHERE v < 10}), '50', 'answers whatever the search path');
command_ok([ 'pg_dump', @connection, '-f', "$file.2", 'restored' ], 'pg_dump of that');
like(slurp_file("$file.2"), qr/^CREATE INDEX t_v ON public\.t USING fpbtree \(v, b DESC\);$/m, 'the index is dumped without its classes');
$node->safe_psql('postgres', 'CREATE DATABASE again');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', @connection, '-f', "$file.2", '-o', '/dev/null', 'again' ], 'restore of that');
is($node->safe_psql('again', q{SELECT count(*) FROM "a schema".fpbtree_check('t_v', true)}), '0', 'sound again');

# By a search path set to mislead.
$node->safe_psql('again', <<'SQL');
DROP EXTENSION fpbtree CASCADE;
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.less(int4, int4) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 OPERATOR(pg_catalog.>) $2';
CREATE OPERATOR hostile.< (LEFTARG = int4, RIGHTARG = int4, FUNCTION = hostile.less);
CREATE TABLE hostile.pg_am AS SELECT (oid::int8 + 1)::oid AS oid, amname FROM pg_am;
CREATE TABLE hostile.pg_opfamily AS SELECT * FROM pg_opfamily WHERE false;
SET search_path = hostile, pg_catalog, public;
CREATE EXTENSION fpbtree SCHEMA hostile;
SQL
is($node->safe_psql('again', <<'SQL'), '0', 'a misleading search path misleads nobody');
SELECT count(*) FROM pg_amop f JOIN pg_am a ON a.oid = f.amopmethod
 WHERE a.amname = 'fpbtree' AND NOT EXISTS (SELECT FROM pg_amop b JOIN pg_am c ON c.oid = b.amopmethod WHERE c.amname = 'btree' AND b.amopopr = f.amopopr AND b.amopstrategy = f.amopstrategy)
SQL
cmp_ok($node->safe_psql('again', q{SELECT count(*) FROM pg_amop f JOIN pg_am a ON a.oid = f.amopmethod WHERE a.amname = 'fpbtree'}), '>', 150, 'and loses nothing');

# Adopted classes are the user's objects: dumped, and restored after what they are made of, whatever its name.
$node->safe_psql('postgres', 'CREATE DATABASE adopted');
$node->safe_psql('adopted', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE SCHEMA "a schema";
CREATE EXTENSION citext SCHEMA "a schema";
CREATE EXTENSION ltree;
CREATE EXTENSION seg;
CREATE SCHEMA zoo;
CREATE TYPE zoo.tag;
CREATE FUNCTION zoo.tag_in(cstring) RETURNS zoo.tag IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION zoo.tag_out(zoo.tag) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'int4out';
CREATE TYPE zoo.tag (INPUT = zoo.tag_in, OUTPUT = zoo.tag_out, LIKE = int4);
CREATE FUNCTION zoo.tag_lt(zoo.tag, zoo.tag) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4lt';
CREATE FUNCTION zoo.tag_le(zoo.tag, zoo.tag) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4le';
CREATE FUNCTION zoo.tag_eq(zoo.tag, zoo.tag) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4eq';
CREATE FUNCTION zoo.tag_ge(zoo.tag, zoo.tag) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4ge';
CREATE FUNCTION zoo.tag_gt(zoo.tag, zoo.tag) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4gt';
CREATE FUNCTION zoo.tag_cmp(zoo.tag, zoo.tag) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'btint4cmp';
CREATE OPERATOR zoo.< (LEFTARG = zoo.tag, RIGHTARG = zoo.tag, FUNCTION = zoo.tag_lt);
CREATE OPERATOR zoo.<= (LEFTARG = zoo.tag, RIGHTARG = zoo.tag, FUNCTION = zoo.tag_le);
CREATE OPERATOR zoo.= (LEFTARG = zoo.tag, RIGHTARG = zoo.tag, FUNCTION = zoo.tag_eq);
CREATE OPERATOR zoo.>= (LEFTARG = zoo.tag, RIGHTARG = zoo.tag, FUNCTION = zoo.tag_ge);
CREATE OPERATOR zoo.> (LEFTARG = zoo.tag, RIGHTARG = zoo.tag, FUNCTION = zoo.tag_gt);
CREATE OPERATOR CLASS zoo.tag_ops DEFAULT FOR TYPE zoo.tag USING btree AS OPERATOR 1 zoo.<, OPERATOR 2 zoo.<=, OPERATOR 3 zoo.=,
	OPERATOR 4 zoo.>=, OPERATOR 5 zoo.>, FUNCTION 1 zoo.tag_cmp(zoo.tag, zoo.tag);
CREATE OPERATOR FAMILY zoo."Mixed" USING btree;
CREATE OPERATOR CLASS zoo.mixed4 FOR TYPE int4 USING btree FAMILY zoo."Mixed" AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =,
	OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4);
CREATE OPERATOR CLASS public.mixed8 FOR TYPE int8 USING btree FAMILY zoo."Mixed" AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =,
	OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(int8, int8), FUNCTION 4 btequalimage(oid);
SELECT fpbtree_adopt();
ALTER OPERATOR FAMILY zoo."Mixed" USING btree ADD OPERATOR 1 < (int4, int8), OPERATOR 2 <= (int4, int8), OPERATOR 3 = (int4, int8),
	OPERATOR 4 >= (int4, int8), OPERATOR 5 > (int4, int8), FUNCTION 1 (int4, int8) btint48cmp(int4, int8);
SELECT fpbtree_adopt('zoo.mixed4');
CREATE TABLE used AS SELECT i AS v, i::int8 AS w FROM generate_series(1, 2000) i;
CREATE INDEX used_v ON used USING fpbtree (v zoo.mixed4, w DESC);
CREATE INDEX used_w ON used USING fpbtree (w mixed8);
SQL

# Families with their classes and members, and what those depend on.
my $families = <<'SQL';
SELECT f.opfnamespace::regnamespace::text, f.opfname,
       (SELECT string_agg(format('%s.%s %s %s %s', opcnamespace::regnamespace, opcname, opcintype::regtype, opcdefault, opckeytype), ', ' ORDER BY opcname)
          FROM pg_opclass WHERE opcfamily = f.oid),
       (SELECT string_agg(format('%s %s %s', amopstrategy, amopopr::regoperator, (SELECT string_agg(deptype::text, '' ORDER BY deptype) FROM pg_depend WHERE objid = o.oid)), ', '
               ORDER BY amoplefttype::regtype::text, amoprighttype::regtype::text, amopstrategy) FROM pg_amop o WHERE amopfamily = f.oid),
       (SELECT string_agg(format('%s %s %s', amprocnum, amproc::oid::regprocedure, (SELECT string_agg(deptype::text, '' ORDER BY deptype) FROM pg_depend WHERE objid = p.oid)), ', '
               ORDER BY amproclefttype::regtype::text, amprocrighttype::regtype::text, amprocnum) FROM pg_amproc p WHERE amprocfamily = f.oid)
  FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod WHERE a.amname = 'fpbtree' ORDER BY 1, 2
SQL
my $adopted = $node->safe_psql('adopted', $families);
like($adopted, qr/^zoo\|Mixed\|/m, 'adopted');
like($adopted, qr/^"a schema"\|citext_pattern_ops\|/m, 'adopted: of an extension');
command_ok([ 'pg_dump', @connection, '-f', "$file.3", 'adopted' ], 'pg_dump of adopted classes');
$dump = slurp_file("$file.3");
like($dump, qr/^CREATE OPERATOR CLASS zoo\.tag_ops\n\s+DEFAULT FOR TYPE zoo\.tag USING fpbtree/m, 'a class is dumped');
like($dump, qr/^CREATE OPERATOR CLASS public\.seg_ops\n\s+DEFAULT FOR TYPE public\.seg USING fpbtree/m, 'a class for an extension\'s type is dumped');
unlike($dump, qr/OPERATOR (CLASS|FAMILY) pg_catalog\./, 'the extension\'s own are not');
$node->safe_psql('postgres', 'CREATE DATABASE adopted2; CREATE DATABASE adopted3');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', @connection, '-f', "$file.3", '-o', '/dev/null', 'adopted2' ], 'restore of adopted classes');
is($node->safe_psql('adopted2', $families), $adopted, 'restored: the same families');
is($node->safe_psql('adopted2', 'SELECT * FROM fpbtree_adopt()'), '', 'restored: nothing is left to adopt');
command_ok([ 'pg_dump', @connection, '-F', 'directory', '-f', "$directory.3", 'adopted2' ], 'pg_dump again');
command_ok([ 'pg_restore', @connection, '-j', '2', '-e', '-d', 'adopted3', "$directory.3" ], 'pg_restore with two jobs');
is($node->safe_psql('adopted3', $families), $adopted, 'restored in parallel: the same families');
is($node->safe_psql('adopted3', 'SELECT pg_get_indexdef(oid) FROM (SELECT indexrelid AS oid FROM pg_index WHERE indrelid = \'used\'::regclass) i ORDER BY 1'),
	"CREATE INDEX used_v ON public.used USING fpbtree (v zoo.mixed4, w DESC)\nCREATE INDEX used_w ON public.used USING fpbtree (w mixed8)",
	'restored in parallel: the same indexes');
is($node->safe_psql('adopted3', "SELECT count(*) FROM fpbtree_check('used_v', true)"), '0', 'restored in parallel: sound');
is($node->safe_psql('adopted3', 'SET enable_seqscan = off; SELECT count(*) FROM used WHERE v < 100::int8'), '99', 'restored in parallel: answers');

# Their extensions go only with them, and fpbtree only with them.
($status, $out, $err) = $node->psql('adopted3', "\\set VERBOSITY sqlstate\nDROP EXTENSION ltree");
like($err, qr/2BP01/, 'an extension is not dropped from under an adopted class');
($status, $out, $err) = $node->psql('adopted3', "\\set VERBOSITY sqlstate\nDROP EXTENSION fpbtree");
like($err, qr/2BP01/, 'nor fpbtree');
$node->safe_psql('adopted3', 'DROP EXTENSION fpbtree CASCADE');
is($node->safe_psql('adopted3', q{SELECT count(*) FROM pg_opfamily f WHERE NOT EXISTS (SELECT FROM pg_am a WHERE a.oid = f.opfmethod)}), '0', 'CASCADE takes the families along');
$node->safe_psql('adopted3', 'CREATE EXTENSION fpbtree; SELECT fpbtree_adopt()');
is($node->safe_psql('adopted3', $families), $adopted, 'created and adopted again: the same families');

# What users had in the server's families before the extension came is theirs, too: dumped, and restored behind it.
$node->safe_psql('postgres', 'CREATE DATABASE before; CREATE DATABASE before2');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-v', 'srcdir=.', '-q', @connection, '-f', 'sql/pound.inc', '-f', 'sql/pound_members.inc', '-o', '/dev/null', 'before' ], 'a class in integer_ops');
$node->safe_psql('before', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE used (p pound);
INSERT INTO used SELECT i::text::pound FROM generate_series(1, 2000) i;
CREATE INDEX used_p ON used USING fpbtree (p);
SQL
command_ok([ 'pg_dump', @connection, '-f', "$file.4", 'before' ], 'pg_dump of it');
like(slurp_file("$file.4"), qr/^CREATE OPERATOR CLASS public\.pound_ops\n\s+DEFAULT FOR TYPE public\.pound USING fpbtree FAMILY pg_catalog\.integer_ops/m, 'it is dumped');
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', @connection, '-f', "$file.4", '-o', '/dev/null', 'before2' ], 'restore of it');
is($node->safe_psql('before2', "SELECT count(*) FROM fpbtree_check('used_p', true)"), '0', 'restored: sound');
is($node->safe_psql('before2', q{SET enable_seqscan = off; SELECT count(*) FROM used WHERE p < '100'}), '99', 'restored: answers');

# Only who may create an extension may create this one.
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN; CREATE DATABASE theirs OWNER nobody');
($status, $out, $err) = $node->psql('theirs', "\\set VERBOSITY sqlstate\nSET ROLE nobody;\nCREATE EXTENSION fpbtree");
like($err, qr/42501/, 'not for everybody');
server_is_clean($node, 'dump');
$node->stop;
done_testing();
