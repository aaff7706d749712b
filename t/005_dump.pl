# pg_dump and restore; the extension created, moved, dropped.
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
CREATE INDEX t_part ON t USING fpbtree (u) WHERE active;
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

# Only who may create an extension may create this one.
$node->safe_psql('postgres', 'CREATE ROLE nobody LOGIN; CREATE DATABASE theirs OWNER nobody');
($status, $out, $err) = $node->psql('theirs', "\\set VERBOSITY sqlstate\nSET ROLE nobody;\nCREATE EXTENSION fpbtree");
like($err, qr/42501/, 'not for everybody');
server_is_clean($node, 'dump');
$node->stop;
done_testing();
