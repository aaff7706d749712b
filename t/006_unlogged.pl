# An unlogged index keeps its entries over an orderly restart, and is empty, and of use, after a crash.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('unlogged');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nrestart_after_crash = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE UNLOGGED TABLE u (id int, v int);
CREATE INDEX u_v ON u USING fpbtree (v);
CREATE INDEX u_list ON u USING fpbtree (v DESC, id);
CREATE TABLE t (id int, v int);
CREATE INDEX t_v ON t USING fpbtree (v);
INSERT INTO u SELECT i, i % 700 FROM generate_series(1, 20000) i;
INSERT INTO t SELECT i, i % 700 FROM generate_series(1, 20000) i;
SQL
my @queries = ('SELECT v FROM u WHERE v > 50', 'SELECT id, v FROM u WHERE v = 7', 'SELECT v, id FROM u ORDER BY v DESC, id');

$node->restart;
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '20000', 'kept over a restart');
is_sound($node, 'restart', 'u_v', 'u_list', 't_v');
answers_alike($node, 'restart', @queries);

for my $checkpoint (0, 1)
{
	my $when = $checkpoint ? 'with a checkpoint' : 'without a checkpoint';
	$node->safe_psql('postgres', 'CHECKPOINT') if $checkpoint;
	# An index made since the last start has an init fork of its own.
	$node->safe_psql('postgres', 'DROP INDEX IF EXISTS u_new; CREATE INDEX u_new ON u USING fpbtree (id)');
	kill_all($node);
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', "$when: empty after a crash");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM u WHERE v > $_"), '0', "$when: through the index")
	  for (-1, 100);
	is($node->safe_psql('postgres', "SELECT entries FROM fpbtree_stats('$_')"), '0', "$when: no entries in $_") for ('u_v', 'u_list', 'u_new');
	is_sound($node, "$when: empty", 'u_v', 'u_list', 'u_new', 't_v');
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE v >= 0'), '20000', "$when: a logged index is not");
	$node->safe_psql('postgres', 'INSERT INTO u SELECT i, i % 700 FROM generate_series(1, 20000) i');
	is_sound($node, "$when: filled", 'u_v', 'u_list', 'u_new');
	answers_alike($node, "$when: filled", @queries);
}

$node->safe_psql('postgres', 'DELETE FROM u WHERE v < 600');
$node->safe_psql('postgres', 'VACUUM u');
is_sound($node, 'vacuumed', 'u_v', 'u_list');
$node->safe_psql('postgres', 'ALTER TABLE u SET LOGGED');
kill_all($node);
$node->start;
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '>', 0, 'made logged, the rows survive');
is_sound($node, 'made logged', 'u_v', 'u_list', 'u_new');
answers_alike($node, 'made logged', @queries);
$node->stop;
done_testing();
