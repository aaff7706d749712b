# A table with indexes of every kind and log, a load on it, and a tally by which a copy of it can be told to be whole at
# whatever point of the log it was recovered to.
package FpbtreeLoad;

use strict;
use warnings;
use Exporter 'import';
use Test::More;
use FpbtreeTest;

our @EXPORT = qw(make_loaded start_writing stop_writing churn is_whole contents write_everywhere @indexes @queries);

our @indexes = qw(t_generic_v t_generic_s t_v t_list t_s);
our @queries = (
	'SELECT v FROM t WHERE v BETWEEN -500000000 AND 500000000 ORDER BY v',
	q{SELECT w, d FROM t WHERE w BETWEEN 100 AND 300 AND d > date '2003-01-01'},
	q{SELECT s, id FROM t WHERE s > 'd'},
	q{SELECT s FROM t WHERE s BETWEEN '3' AND '5' ORDER BY s});

# Every statement tells in the same transaction how many rows it made or took, and what their numbers add up to.
my %load = (
	inserting('generate_series(1, 150)') => 10,
	"\\set a random(1, 100000)\nWITH x AS (UPDATE t SET v = v + 1, w = w - 1 WHERE id BETWEEN :a AND :a + 20 AND v < 2147483647 RETURNING 1) INSERT INTO tally SELECT 0, count(*) FROM x;" => 4,
	"\\set a random(-2147483648, 2147483647)\n" . deleting('v BETWEEN :a AND :a::bigint + 50000000') => 1,
	"\\set a random(0, 250)\n" . deleting(q{s >= lpad(to_hex(:a), 2, '0') AND s < lpad(to_hex(:a + 3), 2, '0')}) => 1,
	"\\set a random(1, 1000)\nBEGIN; UPDATE t SET d = d + 1 WHERE w = :a; ROLLBACK;" => 1,
	'VACUUM (SKIP_LOCKED) t;' => 1);

sub inserting
{
	my ($rows) = @_;
	return "WITH x AS (INSERT INTO t (v, w, d) SELECT (random() * 4294967295 - 2147483648)::int, (random() * 1000)::int2,"
	  . " date '2000-01-01' + (random() * 3000)::int FROM $rows RETURNING v) INSERT INTO tally SELECT count(*), sum(v) FROM x;";
}

sub deleting
{
	my ($condition) = @_;
	return "WITH x AS (DELETE FROM t WHERE $condition RETURNING v) INSERT INTO tally SELECT -count(*), -sum(v) FROM x;";
}

# Makes the table on a running server: the first indexes before it preloads the library, the others after.
sub make_loaded
{
	my ($node, $rows) = @_;
	$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION fpbtree;
CREATE EXTENSION pg_walinspect;
CREATE TABLE tally (rows bigint, v numeric);
CREATE TABLE t (id serial, v int, w int2, d date, s text COLLATE "C" GENERATED ALWAYS AS (md5(v::text)) STORED) WITH (autovacuum_enabled = off);
@{[ inserting("generate_series(1, $rows)") ]}
CREATE INDEX t_generic_v ON t USING fpbtree (v);
CREATE INDEX t_generic_s ON t USING fpbtree (s);
SQL
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
	$node->restart;
	$node->safe_psql('postgres', <<'SQL');
CREATE INDEX t_v ON t USING fpbtree (v) WITH (fillfactor = 100);
CREATE INDEX t_list ON t USING fpbtree (w DESC, d) WITH (fillfactor = 100);
CREATE INDEX t_s ON t USING fpbtree (s) INCLUDE (id);
SQL
	is($node->safe_psql('postgres', "SELECT string_agg(log, ' ') FROM unnest('{" . join(',', @indexes) . "}'::text[]) i, fpbtree_stats(i::regclass)"),
		'generic generic own own own', 'the logs');
	return;
}

# Starts the load, which goes on until it is stopped or its server is. A standby on a busy machine has to keep up with it: one
# that is behind is not promoted before it has replayed all.
sub start_writing
{
	my ($node) = @_;
	my $pgbench = start_load($node, 3, 600, rate => 25, %load);
	$node->poll_query_until('postgres', q{SELECT count(*) > 3 FROM pg_stat_activity WHERE backend_type = 'client backend'}) or die 'no load';
	return $pgbench;
}

# Stops the load, and waits for the statements under way.
sub stop_writing
{
	my ($node, $pgbench) = @_;
	$pgbench->signal('TERM');
	$pgbench->finish;
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'}) or die 'not stopped';
	return;
}

# Splits and deletes pages of every index, however little the load gets done.
sub churn
{
	my ($node) = @_;
	$node->safe_psql('postgres', inserting('generate_series(1, 20000)'));
	$node->safe_psql('postgres', deleting($_)) for 'v BETWEEN 500000000 AND 1000000000', 'w BETWEEN 400 AND 600', q{s BETWEEN '5' AND '8'};
	$node->safe_psql('postgres', 'VACUUM t');
	return;
}

# What the table holds, in short.
sub contents
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SET jit = off; SELECT count(*), sum(v), sum(hashtext(t::text)) FROM t');
}

# Every transaction is there entirely or not at all, and the indexes agree.
sub is_whole
{
	my ($node, $name) = @_;
	is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'),
		$node->safe_psql('postgres', 'SELECT sum(rows), sum(v) FROM tally'), "$name: every transaction, wholly");
	is_sound($node, $name, @indexes);
	answers_alike($node, $name, @queries);
	return;
}

# Writes to every leaf of every index: a split that was not finished is, by whoever comes there first. Copies of rows do not
# get to leaves whose rows are all deleted or of a transaction that did not finish; new rows of all values do.
sub write_everywhere
{
	my ($node) = @_;
	$node->safe_psql('postgres', inserting('generate_series(1, 20000)'));
	$node->safe_psql('postgres',
		'WITH x AS (INSERT INTO t (v, w, d) SELECT v, w, d FROM t WHERE id % 4 = 0 RETURNING v) INSERT INTO tally SELECT count(*), sum(v) FROM x');
	$node->safe_psql('postgres', deleting('id % 3 = 0'));
	$node->safe_psql('postgres', 'VACUUM t');
	return;
}

1;
