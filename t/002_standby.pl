# A physical standby answers as its primary, while a load runs, after it, and once promoted: with the server's generic log and with our own.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

for ([ 'generic', 'generic' ], [ 'own', 'all,fpbtree' ])
{
	my ($log, $compared) = @$_;
	my $primary = PostgreSQL::Test::Cluster->new("primary_$log");
	$primary->init(allows_streaming => 1);
	$primary->append_conf('postgresql.conf', "shared_buffers = 8MB\nautovacuum = off\n");
	$primary->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'\n") if $log eq 'own';
	# Redo compares every page that a record changed with what the primary had. The images take room, and the standby
	# falls behind when it restarts.
	$primary->append_conf('postgresql.conf', "wal_consistency_checking = '$compared'\nwal_keep_size = 8GB\n");
	$primary->start;
	$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE t (id serial, v int, w int2, d timestamp) WITH (autovacuum_enabled = off);
INSERT INTO t (v, w, d) SELECT hashint4(i), i % 500, timestamp '2020-01-01' + i * interval '1 min' FROM generate_series(1, 40000) i;
CREATE INDEX t_v ON t USING fpbtree (v);
CREATE INDEX t_list ON t USING fpbtree (w DESC, d);
CREATE UNLOGGED TABLE u (v int);
CREATE INDEX u_v ON u USING fpbtree (v);
INSERT INTO u SELECT generate_series(1, 1000);
SQL
	$primary->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new("standby_$log");
	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	# Rows that VACUUM removes are no reason to cancel the standby's queries here.
	$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = -1\n");
	$standby->start;
	catch_up($primary, $standby);

	my @queries = (
		'SELECT v FROM t WHERE v > 0',
		'SELECT id, v FROM t WHERE v BETWEEN -100000000 AND 100000000',
		'SELECT w, d FROM t WHERE w = ANY (ARRAY[3, 77, 499, 3]::int2[])',
		'SELECT w, d FROM t ORDER BY w DESC, d');
	answers_alike($standby, "$log: at rest", @queries);
	is($primary->safe_psql('postgres', q{SELECT log FROM fpbtree_stats('t_v')}), $log, "$log: the log");
	like($standby->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN SELECT v FROM t WHERE v > 0'),
		$log eq 'own' ? qr/Index Only Scan/ : qr/Index Scan/, "$log: index-only scans in recovery");

	# An index made, and one dropped, while the standby watches.
	$primary->safe_psql('postgres', 'CREATE INDEX t_d ON t USING fpbtree (d DESC NULLS LAST) WITH (fillfactor = 100)');

	my $pgbench = start_load($primary, 3, 15,
		'INSERT INTO t (v, w, d) SELECT hashint4((random() * 1e6)::int), (random() * 500)::int2, now() + random() * interval \'1 year\' FROM generate_series(1, 30);' => 8,
		"\\set a random(1, 60000)\nUPDATE t SET v = v + 1, d = d + interval '1 day' WHERE id BETWEEN :a AND :a + 20;" => 6,
		"\\set a random(1, 60000)\nDELETE FROM t WHERE id BETWEEN :a AND :a + 500;" => 4,
		'VACUUM (SKIP_LOCKED) t;' => 1);
	my $looks = 0;
	while ($pgbench->pumpable && $looks < 8)
	{
		$looks++;
		answers_alike($standby, "$log: under load, look $looks", @queries, 'SELECT d FROM t WHERE d > timestamp \'2020-01-10\'');
		if ($looks == 4)
		{
			$standby->stop('immediate');
			$standby->start;
		}
	}
	$pgbench->finish;
	cmp_ok($looks, '>=', 4, "$log: the standby was looked at while the load ran");
	catch_up($primary, $standby);
	answers_alike($standby, "$log: after the load", @queries, 'SELECT d FROM t WHERE d > timestamp \'2020-01-10\'');
	is($standby->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*), sum(v) FROM t WHERE v > -1000'),
		$primary->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(v) FROM t WHERE v > -1000'),
		"$log: the primary's answer");
	my $inside = q{SELECT md5(string_agg(concat_ws(' ', b, p.type, e.number, e.tid, e.child, e.columns::text, e.data), ',' ORDER BY b, e.number))
		FROM generate_series(1, pg_relation_size('t_v') / 8192 - 1) b CROSS JOIN fpbtree_page('t_v', b) p LEFT JOIN fpbtree_entries('t_v', b) e ON true};
	is($standby->safe_psql('postgres', $inside), $primary->safe_psql('postgres', $inside), "$log: pages hold the same");
	is(substr($standby->safe_psql('postgres', "SELECT fpbtree_map('t_v')"), 0, 4), '<svg', "$log: a standby is drawn");
	my ($status, $out, $err) = $standby->psql('postgres', "SELECT fpbtree_check('t_v')");
	like($err, qr/cannot check an index while WAL is being replayed.*pg_wal_replay_pause/s, "$log: a standby that replays cannot check");
	is_sound($standby, "$log: standby", 't_v', 't_list', 't_d');
	is_sound($primary, "$log: primary", 't_v', 't_list', 't_d');

	# Entries marked dead on the primary alone, or on the standby alone, are no difference that matters.
	$primary->safe_psql('postgres', 'DELETE FROM t WHERE v BETWEEN 0 AND 300000000');
	$primary->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM t WHERE v BETWEEN -5 AND 400000000') for 1 .. 2;
	$primary->safe_psql('postgres', 'INSERT INTO t (v, w) SELECT i * 30000, i % 500 FROM generate_series(1, 10000) i');
	catch_up($primary, $standby);
	answers_alike($standby, "$log: dead entries", @queries);
	$primary->safe_psql('postgres', 'VACUUM t');
	$primary->safe_psql('postgres', 'DROP INDEX t_d');
	$primary->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY t_v');
	catch_up($primary, $standby);
	answers_alike($standby, "$log: rebuilt", @queries);

	$standby->promote;
	is_sound($standby, "$log: promoted", 't_v', 't_list', 'u_v');
	is($standby->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM u WHERE v > 0'), '0', "$log: an unlogged index is empty once promoted");
	$standby->safe_psql('postgres', <<'SQL');
INSERT INTO u SELECT generate_series(1, 5000);
INSERT INTO t (v, w, d) SELECT hashint4(i), i % 500, now() FROM generate_series(1, 20000) i;
DELETE FROM t WHERE id % 3 = 0;
SQL
	$standby->safe_psql('postgres', 'VACUUM t');
	is_sound($standby, "$log: written to", 't_v', 't_list', 'u_v');
	answers_alike($standby, "$log: written to", @queries, 'SELECT v FROM u WHERE v > 77');
	server_is_clean($primary, "$log: primary");
	server_is_clean($standby, "$log: standby");
	$standby->stop;
	$primary->stop;
}
done_testing();
