# Citus: a coordinator and two workers, with fpbtree indexes and constraints on shards. Every query is answered through
# fpbtree, by sequential scans, and through btree on a table beside it that has the same rows; shards move and split while
# rows are written, a worker dies, and every shard's indexes are sound.
#
# FPBTREE_FIGURE=1 measures a load on 32 shards beside btree's, too.
# Needs: citus
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $coordinator = PostgreSQL::Test::Cluster->new('coordinator');
plan skip_all => 'left out: constraints cannot have fpbtree indexes before PostgreSQL 18' if $coordinator->pg_version->major < 18;
my @workers = map { PostgreSQL::Test::Cluster->new($_) } 'worker1', 'worker2';
my @nodes = ($coordinator, @workers);
for my $node (@nodes)
{
	$node->init(allows_streaming => 'logical', extra => [ '--encoding', 'UTF8' ]);
	# Citus wants to be first.
	$node->append_conf('postgresql.conf', <<'END');
shared_preload_libraries = 'citus,fpbtree'
listen_addresses = 'localhost'
citus.node_conninfo = 'sslmode=prefer'
citus.shard_count = 8
max_connections = 200
max_worker_processes = 32
max_prepared_transactions = 100
fsync = off
jit = off
END
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION citus');
	trust_output_plugin($node, 'citus');
}
$coordinator->safe_psql('postgres', q{SELECT citus_set_coordinator_host('localhost', } . $coordinator->port . ')');
$coordinator->safe_psql('postgres', qq{SELECT citus_add_node('localhost', @{[ $_->port ]})}) for @workers;

sub ask
{
	my (@statements) = @_;
	return $coordinator->safe_psql('postgres', join ";\n", @statements);
}

# What a statement says if it is refused.
sub refusal
{
	my ($statement) = @_;
	my ($status, $out, $err) = $coordinator->psql('postgres', $statement);
	return $status ? $err : 'done';
}

# The extension comes to the workers by itself.
ask('CREATE EXTENSION fpbtree');
is(ask(q{SELECT string_agg(result, ' ') FROM run_command_on_all_nodes('SELECT count(*) FROM pg_am WHERE amname = ''fpbtree''')}), '1 1 1', 'the extension is on all nodes');

# Tables in pairs, NAME_f with fpbtree and NAME_b with btree, of all the kinds that Citus has.
my %indexes = (
	'' => [ '(v, id) INCLUDE (amount)', '(tenant, at DESC)', '(kind)', '(name)', '(lower(kind), v)', '(amount)', '(v) WHERE ok', '(at)', '(kind text_pattern_ops)' ],
	UNIQUE => [ '(tenant, kind, id)', '(tenant, id) WHERE v < 0' ],
	CONCURRENTLY => [ '(id)' ]);
my %kinds = (
	spread => q{SELECT create_distributed_table('{t}', 'tenant')},
	copied => q{SELECT create_reference_table('{t}')},
	managed => q{SELECT citus_add_local_table_to_metadata('{t}')},
	plain => 'SELECT');
my @methods = ([ 'f', 'fpbtree' ], [ 'b', 'btree' ]);
for my $kind (sort keys %kinds)
{
	for (@methods)
	{
		my ($letter, $method) = @$_;
		my $table = "${kind}_$letter";
		ask("CREATE TABLE $table (tenant int, id bigint, at timestamptz, kind text COLLATE \"C\", name text COLLATE \"en-x-icu\", amount numeric, v int, ok bool, PRIMARY KEY (tenant, id) WITH (method = $method))",
			$kinds{$kind} =~ s/\{t\}/$table/r);
		ask("INSERT INTO $table SELECT i % 50, i, timestamptz '2026-01-01 00:00+00' + i * interval '1 min', 'kind ' || i % 20, initcap(md5((i % 1000)::text)), i * 1.25, hashint4(i) % 1000, i % 3 = 0 FROM generate_series(1, 20000) i");
		for my $how (sort keys %indexes)
		{
			my ($unique, $concurrently) = map { $how eq $_ ? $how : '' } 'UNIQUE', 'CONCURRENTLY';
			ask("CREATE $unique INDEX $concurrently ON $table USING $method $_") for @{ $indexes{$how} };
		}
		ask("VACUUM ANALYZE $table");
	}
}
is(ask(q{SELECT colocationid = (SELECT colocationid FROM pg_dist_partition WHERE logicalrelid = 'spread_b'::regclass) FROM pg_dist_partition WHERE logicalrelid = 'spread_f'::regclass}), 't', 'the pair is colocated');

# Every index of fpbtree's on every placement, and as many as there should be.
sub shards_are_sound
{
	my ($name, $table, $indexes) = @_;
	my $results = ask(qq{SELECT DISTINCT result FROM run_command_on_placements('$table', \$\$
		SELECT count(DISTINCT indexrelid) || ' indexes, ' || count(what) || ' problems' FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam LEFT JOIN LATERAL fpbtree_check(indexrelid, true) ON true
		WHERE indrelid = '%s'::regclass AND amname = 'fpbtree'\$\$)});
	is($results, "$indexes indexes, 0 problems", "$name: all shards of $table are sound");
	return;
}
shards_are_sound('built', $_, 13) for 'spread_f', 'copied_f', 'managed_f';

# A query with {t} for the table's kind and letter, answered in each way.
my %ways = (
	sequential => [ 'f', 'SET LOCAL enable_indexscan = off', 'SET LOCAL enable_bitmapscan = off', 'SET LOCAL enable_indexonlyscan = off' ],
	fpbtree => [ 'f', 'SET LOCAL enable_seqscan = off', 'SET LOCAL enable_bitmapscan = off' ],
	bitmap => [ 'f', 'SET LOCAL enable_seqscan = off', 'SET LOCAL enable_indexscan = off' ],
	btree => [ 'b', 'SET LOCAL enable_seqscan = off' ]);

sub answer
{
	my ($way, $query, $prefix) = @_;
	my ($letter, @settings) = @{ $ways{$way} };
	$query =~ s/\{(\w+)\}/$1_$letter/g;
	my $out = ask('BEGIN', q{SET LOCAL citus.propagate_set_commands = 'local'}, 'SET LOCAL citus.explain_all_tasks = on', @settings, ($prefix // '') . $query, 'COMMIT');
	return $query =~ /ORDER BY/ ? $out : join "\n", sort split /\n/, $out;
}

sub answered_alike
{
	my ($name, @queries) = @_;
	for my $query (@queries)
	{
		my $want = answer('sequential', $query);
		isnt($want, '', "$name: something to compare: $query");
		is(answer($_, $query), $want, "$name: $_: $query") for grep { $_ ne 'sequential' } sort keys %ways;
	}
	return;
}

my @queries = (
	'SELECT * FROM {spread} WHERE tenant = 7 AND id = 4007',
	'SELECT at FROM {spread} WHERE tenant = 7 ORDER BY at DESC LIMIT 10',
	'SELECT tenant, id, amount FROM {spread} WHERE v BETWEEN -5 AND 5 ORDER BY v, id',
	'SELECT count(*), sum(v), min(at), max(at) FROM {spread} WHERE v > 100',
	'SELECT tenant, count(*), max(at) FROM {spread} GROUP BY tenant',
	'SELECT DISTINCT tenant FROM {spread}',
	'SELECT DISTINCT kind FROM {spread}',
	'SELECT kind, count(*) FROM {spread} GROUP BY kind',
	'SELECT count(DISTINCT v) FROM {spread}',
	q{SELECT count(*) FROM {spread} WHERE kind LIKE 'kind 1%'},
	q{SELECT id, name FROM {spread} WHERE name > 'F' AND name < 'F2' ORDER BY name, id},
	q{SELECT count(*) FROM {spread} WHERE lower(kind) = 'kind 3' AND v > 0},
	'SELECT count(*) FROM {spread} WHERE v = 10 AND ok',
	'SELECT id, amount FROM {spread} WHERE amount BETWEEN 1000 AND 1010 ORDER BY id',
	'SELECT DISTINCT ON (tenant) tenant, at FROM {spread} ORDER BY tenant, at DESC',
	'SELECT at FROM {spread} WHERE tenant = 3 ORDER BY at DESC OFFSET 100 LIMIT 5',
	'SELECT a.id, c.name FROM {spread} a JOIN {spread} b USING (tenant, id) JOIN {copied} c ON c.id = a.v WHERE a.tenant = 11 AND b.v BETWEEN 1 AND 500 ORDER BY a.id, c.name',
	'SELECT p.id, count(*) FROM {plain} p JOIN {copied} c ON c.v = p.v WHERE p.id < 20 GROUP BY p.id',
	'SELECT m.id FROM {managed} m JOIN {copied} c USING (tenant, id) WHERE m.v < -990 ORDER BY m.id',
	'SELECT count(*) FROM {spread} WHERE (tenant, id) > (48, 100)');
answered_alike('built', @queries);

# What the shards' plans have.
my %plans = (
	'SELECT tenant, count(*), max(at) FROM {spread} GROUP BY tenant' => qr/Task Count: 8.*Custom Scan \(FpbtreeAggregate\)/s,
	'SELECT DISTINCT tenant FROM {spread}' => qr/Task Count: 8.*Custom Scan \(FpbtreeAggregate\)/s,
	'SELECT DISTINCT kind FROM {spread}' => qr/Task Count: 8.*Custom Scan \(Fpbtree\w+\)/s,
	'SELECT count(*) FROM {spread} WHERE id BETWEEN 100 AND 5000' => qr/Task Count: 8.*Custom Scan \(FpbtreeAggregate\)/s,
	'SELECT at FROM {spread} WHERE tenant = 3 ORDER BY at DESC' => qr/Task Count: 1.*Custom Scan \(FpbtreeRows\)/s,
	'SELECT DISTINCT ON (tenant) tenant, at FROM {spread} ORDER BY tenant, at DESC' => qr/Task Count: 8.*Custom Scan \(FpbtreeDistinct\)/s,
	'SELECT at FROM {spread} WHERE tenant = 3 ORDER BY at DESC OFFSET 100 LIMIT 5' => qr/Task Count: 1.*Custom Scan \(FpbtreeOffset\)/s,
	'SELECT * FROM {spread} WHERE tenant = 7 AND id = 4007' => qr/Task Count: 1.*Index Scan using spread_f_\w+/s);
like(answer('fpbtree', "$_ /* ORDER BY */", 'EXPLAIN (COSTS OFF) '), $plans{$_}, "on the shards: $_") for sort keys %plans;

# Writes, each to both tables.
my @writes = (
	q{INSERT INTO {spread} SELECT tenant, id + 100000, at, kind, name, amount, v, ok FROM {spread} WHERE v > 900},
	q{INSERT INTO {spread} SELECT tenant, id, at, kind, name, amount, v, ok FROM {copied} ON CONFLICT (tenant, id) DO UPDATE SET v = {spread}.v + 1, amount = excluded.amount + 1},
	q{INSERT INTO {spread} (tenant, id, v, kind) VALUES (7, 4007, 1, 'x'), (8, 7, 2, 'new'), (9, 8, 3, 'new') ON CONFLICT DO NOTHING},
	q{INSERT INTO {spread} AS s (tenant, id, kind, v) VALUES (7, 4007, 'kind 7', 1) ON CONFLICT (tenant, kind, id) DO UPDATE SET v = s.v * 2},
	q{MERGE INTO {spread} s USING {copied} c ON s.tenant = c.tenant AND s.id = c.id AND c.tenant = 5 WHEN MATCHED THEN UPDATE SET kind = 'merged'},
	q{UPDATE {spread} SET v = -v, name = 'Changed' WHERE id % 10 = 0},
	q{DELETE FROM {spread} WHERE id % 13 = 0},
	q{UPDATE {copied} SET v = v + 1 WHERE id % 3 = 0},
	q{DELETE FROM {managed} WHERE v > 800});

sub tables_are_alike
{
	my ($name, @kinds) = @_;
	for my $kind (@kinds)
	{
		my ($f, $b) = map { ask("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM ${kind}_$_ t") } 'f', 'b';
		is($f, $b, "$name: $kind: the same rows");
	}
	return;
}
for my $write (@writes)
{
	for my $letter ('f', 'b') { ask($write =~ s/\{(\w+)\}/$1_$letter/gr); }
}
tables_are_alike('written', 'spread', 'copied', 'managed');
answered_alike('written', @queries);
ask('VACUUM spread_f');
shards_are_sound('written', $_, 13) for 'spread_f', 'copied_f', 'managed_f';

# Constraints: what is violated on a shard, foreign keys, and all the ways in which Citus passes on a constraint.
like(refusal('INSERT INTO spread_f (tenant, id) VALUES (7, 4007)'), qr/duplicate key value violates unique constraint "spread_f_pkey_\d+"/, 'a key is there already');
like(refusal(q{INSERT INTO spread_f (tenant, id, v, kind) VALUES (2, -2, -1, 'a'), (2, -2, -1, 'b')}), qr/duplicate key value violates unique constraint/, 'twice in a statement');
my $constraints = q{SELECT DISTINCT result FROM run_command_on_placements('{t}', $$SELECT string_agg(concat_ws(' ', amname, pg_get_constraintdef(o.oid), reloptions), '; ' ORDER BY conname) FROM pg_constraint o JOIN pg_class c ON c.oid = conindid JOIN pg_am a ON a.oid = relam WHERE conrelid = '%s'::regclass AND contype IN ('p', 'u')$$)};
ask('CREATE TABLE later (a int, b int, c text)', q{SELECT create_distributed_table('later', 'a')},
	'ALTER TABLE later ADD CONSTRAINT k1 PRIMARY KEY (a, b) WITH (method = fpbtree, fillfactor = 80)',
	'ALTER TABLE later ADD UNIQUE (a, c) WITH (method = fpbtree)');
# A setting of the session is not the workers'; one of all nodes' database is.
ask('SET fpbtree.constraints = on', 'ALTER TABLE later ADD CONSTRAINT k2 UNIQUE (a, b, c)');
ask(q{SELECT run_command_on_all_nodes('ALTER DATABASE postgres SET fpbtree.constraints = on')});
ask('ALTER TABLE later ADD CONSTRAINT k3 UNIQUE (a, c, b)');
ask(q{SELECT run_command_on_all_nodes('ALTER DATABASE postgres RESET fpbtree.constraints')});
is(ask($constraints =~ s/\{t\}/later/r),
	'fpbtree PRIMARY KEY (a, b) {method=fpbtree,fillfactor=80}; btree UNIQUE (a, b, c); fpbtree UNIQUE (a, c, b) {method=fpbtree}; fpbtree UNIQUE (a, c) {method=fpbtree}',
	'constraints of a table that is distributed already');
ask('CREATE TABLE lines (a int, b int, n int, copied bigint, PRIMARY KEY (a, b, n) WITH (method = fpbtree))', q{SELECT create_distributed_table('lines', 'a')},
	'ALTER TABLE lines ADD FOREIGN KEY (a, b) REFERENCES later ON DELETE CASCADE',
	'CREATE UNIQUE INDEX copied_id ON copied_f USING fpbtree (id)', 'ALTER TABLE copied_f ADD CONSTRAINT copied_key UNIQUE (id) WITH (method = fpbtree)',
	'ALTER TABLE lines ADD FOREIGN KEY (copied) REFERENCES copied_f (id)',
	q{INSERT INTO later SELECT i, i, 'c' || i FROM generate_series(1, 100) i}, 'INSERT INTO lines SELECT i, i, n, 1 FROM generate_series(1, 100) i, generate_series(1, 3) n');
like(refusal('INSERT INTO lines VALUES (1, 2, 1, 1)'), qr/violates foreign key constraint/, 'a foreign key within the tenant');
like(refusal('INSERT INTO lines VALUES (1, 1, 4, -1)'), qr/violates foreign key constraint/, 'a foreign key to a reference table');
ask('DELETE FROM later WHERE b % 2 = 0');
is(ask('SELECT count(*) FROM lines'), '150', 'ON DELETE CASCADE');

# Partitions of a distributed table.
ask('CREATE TABLE parts (tenant int, at date, v int, PRIMARY KEY (tenant, at, v) WITH (method = fpbtree)) PARTITION BY RANGE (at)',
	q{SELECT create_distributed_table('parts', 'tenant')},
	q{SELECT create_time_partitions('parts', interval '1 month', timestamptz '2026-06-01', timestamptz '2026-01-01')},
	'CREATE INDEX parts_at ON parts USING fpbtree (at, v)',
	q{INSERT INTO parts SELECT i % 20, date '2026-01-01' + i % 150, i FROM generate_series(1, 5000) i},
	'VACUUM ANALYZE parts');
is(ask(q{SELECT count(*), sum(v) FROM parts WHERE at BETWEEN '2026-02-20' AND '2026-03-10'}), ask(q{BEGIN; SET LOCAL citus.propagate_set_commands = 'local'; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SELECT count(*), sum(v) FROM parts WHERE at BETWEEN '2026-02-20' AND '2026-03-10'}), 'partitions');
like(ask('BEGIN', q{SET LOCAL citus.propagate_set_commands = 'local'}, 'SET LOCAL enable_seqscan = off', 'EXPLAIN (COSTS OFF) SELECT at, count(*) FROM parts GROUP BY at'), qr/Fpbtree|Index Only Scan using parts_/, 'partitions by their indexes');
ask(q{CALL drop_old_time_partitions('parts', timestamptz '2026-02-01')});
is(ask('SELECT min(at) FROM parts'), '2026-02-01', 'old partitions are dropped');

# Statements about indexes.
ask('REINDEX TABLE spread_f', 'ALTER INDEX spread_f_v_id_amount_idx SET (fillfactor = 70)', 'DROP INDEX spread_f_amount_idx', 'ALTER INDEX spread_f_id_idx RENAME TO by_id');
ask('CREATE INDEX CONCURRENTLY spread_f_amount_idx ON spread_f USING fpbtree (amount)');
ask('REINDEX INDEX CONCURRENTLY spread_f_kind_idx');
shards_are_sound('maintained', 'spread_f', 13);
is(ask(q{SELECT DISTINCT result FROM run_command_on_placements('spread_f', $$SELECT reloptions FROM pg_class WHERE oid = (SELECT indexrelid FROM pg_index WHERE indrelid = '%s'::regclass AND indkey = '7 2 6')$$)}), '{fillfactor=70}', 'a parameter is on all shards');

# Indexes are moved from btree by Citus' own statements.
for my $how ([ 'moved', q{SELECT create_distributed_table('moved', 'a')} ], [ 'alone', 'SELECT' ])
{
	my ($table, $distribute) = @$how;
	ask("CREATE TABLE $table (a int, b int, c text, PRIMARY KEY (a, b) WITH (method = btree))", $distribute, "CREATE INDEX ${table}_b ON $table (b)",
		"INSERT INTO $table SELECT i, i % 7, 'c' || i FROM generate_series(1, 2000) i");
}
sub migrate
{
	my ($table) = @_;
	my ($out, $err) = ('', '');
	my @connection = ('-h', $coordinator->host, '-p', $coordinator->port, '-d', 'postgres');
	my $is_done = IPC::Run::run([ 'fpbtree-migrate', @connection, '--table', $table ], '<', \undef, '>', \$out, '2>', \$err);
	return ($is_done, $out);
}
my ($is_done, $told) = migrate('alone');
like($told, qr/moved: 2, fpbtree already: 0, not moved: 0, failed: 0/, 'a table of its own is migrated');
($is_done, $told) = migrate('moved');
like($told, qr/public.moved_b +not moved: table public.moved is Citus's: its shards have indexes of their own\n/, 'indexes of shards are not');
like($told, qr/moved: 0, fpbtree already: 0, not moved: 2, failed: 0/, 'nor constraints');
ask('CREATE INDEX CONCURRENTLY moved_b_new ON moved USING fpbtree (b)');
ask('DROP INDEX CONCURRENTLY moved_b');
ask('ALTER INDEX moved_b_new RENAME TO moved_b', 'BEGIN', 'ALTER TABLE moved DROP CONSTRAINT moved_pkey',
	'ALTER TABLE moved ADD CONSTRAINT moved_pkey PRIMARY KEY (a, b) WITH (method = fpbtree)', 'COMMIT');
shards_are_sound('moved', 'moved', 2);
like(refusal('INSERT INTO moved VALUES (5, 5)'), qr/duplicate key value violates unique constraint "moved_pkey_\d+"/, 'a moved constraint holds');
is(ask('SELECT count(*) FROM moved WHERE b = 3'), '286', 'and a moved index finds rows');

# Columnar tables take the methods that they know.
like(refusal('CREATE EXTENSION IF NOT EXISTS citus_columnar; CREATE TABLE stacked (a int) USING columnar; CREATE INDEX ON stacked USING fpbtree (a)'), qr/unsupported access method for the index on columnar table/, 'columnar tables');

# Operator classes of an extension: made by fpbtree_adopt() they belong to none, and Citus passes on an index only if what it
# depends on does. So they are made members of one, on all nodes.
ask('CREATE EXTENSION citext', 'CREATE TABLE people (id int PRIMARY KEY WITH (method = fpbtree), nickname citext)', q{SELECT create_distributed_table('people', 'id')});
for my $statement (q{SELECT count(*) FROM fpbtree_adopt('citext_ops')}, map { "ALTER EXTENSION citext ADD OPERATOR $_ citext_ops USING fpbtree" } 'FAMILY', 'CLASS')
{
	isnt(refusal('CREATE INDEX ON people USING fpbtree (nickname citext_ops)'), 'done', "refused before: $statement");
	is(ask("SELECT bool_and(success) FROM run_command_on_all_nodes(\$\$$statement\$\$)"), 't', "on all nodes: $statement");
}
like(refusal('CREATE INDEX ON people USING fpbtree (nobody)'), qr/column "nobody" does not exist/, 'another refusal is another');
is(refusal('CREATE INDEX ON people USING fpbtree (nickname)'), 'done', 'an index on a type of an extension');
ask(q{INSERT INTO people SELECT i, CASE WHEN i % 2 = 0 THEN 'NICK' ELSE 'nick' END || i / 2 FROM generate_series(1, 2000) i});
is(ask(q{BEGIN; SET LOCAL citus.propagate_set_commands = 'local'; SET LOCAL enable_seqscan = off; SELECT string_agg(id::text, ' ' ORDER BY id) FROM people WHERE nickname = 'Nick7'}), '14 15', 'found by it');
shards_are_sound('adopted', 'people', 2);

# Shards move while rows are written. What a transaction writes to the one table it writes to the other. The row that queries
# look up stays.
my $both = sub { my ($statement) = @_; return join '', map { $statement =~ s/\{t\}/spread_$_/gr } 'f', 'b'; };
my %load = (
	"\\set tenant random(0, 49)\n\\set id random(1, 20000)\n\\set v random(-1000, 1000)\nBEGIN;\n"
	  . $both->("INSERT INTO {t} AS t (tenant, id, kind, v, at, ok) VALUES (:tenant, :id, 'kind ' || :v, :v, '2026-01-01', true) ON CONFLICT (tenant, id) DO UPDATE SET v = t.v + 1, kind = excluded.kind;\n") . "COMMIT;\n" => 4,
	"\\set tenant random(0, 49)\n\\set id random(1, 20000)\nBEGIN;\n" . $both->("DELETE FROM {t} WHERE tenant = :tenant AND id BETWEEN :id AND :id + 20 AND id <> 4007;\n") . "COMMIT;\n" => 1,
	"\\set id random(1, 20000)\nBEGIN;\n" . $both->("UPDATE {t} SET v = -v WHERE tenant IN (1, 2) AND id BETWEEN :id AND :id + 20;\n") . "COMMIT;\n" => 1);

sub moved_under_load
{
	my ($name, $move) = @_;
	my $load = start_load($coordinator, 3, 300, rate => 60, %load);
	$coordinator->poll_query_until('postgres', q{SELECT count(*) > 3 FROM pg_stat_activity WHERE backend_type = 'client backend'}) or die 'no load';
	my $before = ask('SELECT sum(hashtextextended(t::text, 0)) FROM spread_f t');
	$move->();
	isnt(ask('SELECT sum(hashtextextended(t::text, 0)) FROM spread_f t'), $before, "$name: rows were written meanwhile");
	$load->signal('TERM');
	$load->finish;
	# The deadlock of a multi-shard update would be pgbench's matter; anything else is ours.
	unlike(slurp_file($coordinator->basedir . '/pgbench.log.err'), qr/ERROR/, "$name: nobody was told of it");
	$coordinator->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name = current_setting('application_name')}) or die 'not stopped';
	tables_are_alike($name, 'spread');
	shards_are_sound($name, 'spread_f', 13);
	answered_alike($name, @queries[ 0 .. 14 ]);
	return;
}
my $placements = 'SELECT count(*) FROM citus_shards WHERE table_name = \'spread_f\'::regclass AND nodeport = ';
moved_under_load('rebalanced', sub {
	ask(q{SELECT citus_set_node_property('localhost', } . $coordinator->port . q{, 'shouldhaveshards', true)}, q{SELECT citus_rebalance_start(shard_transfer_mode := 'force_logical')}, 'SELECT citus_rebalance_wait()');
	cmp_ok(ask($placements . $coordinator->port), '>', 1, 'rebalanced: shards are on the coordinator');
});
moved_under_load('drained', sub {
	ask(q{SELECT citus_set_node_property('localhost', } . $coordinator->port . q{, 'shouldhaveshards', false)}, q{SELECT rebalance_table_shards('spread_f', shard_transfer_mode := 'auto', drain_only := true)});
	is(ask($placements . $coordinator->port), '0', 'drained: no shard is on the coordinator');
});
my $shards = ask(q{SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'spread_f'::regclass});
moved_under_load('isolated', sub { ask(q{SELECT isolate_tenant_to_new_shard('spread_f', 7, 'CASCADE', shard_transfer_mode := 'force_logical')}) });
cmp_ok(ask(q{SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = 'spread_f'::regclass}), '>', $shards, 'isolated: there are more shards');
ask(q{SELECT alter_distributed_table('spread_f', shard_count := 4, cascade_to_colocated := true)});
tables_are_alike('fewer shards', 'spread');
shards_are_sound('fewer shards', 'spread_f', 13);

# A worker dies, again and again, while rows are written, two tenants in each statement. What was acknowledged is there,
# and what is there is there for both.
my $basedir = $coordinator->basedir;
append_to_file("$basedir/pairs.sql", join '', map { "INSERT INTO spread_f (tenant, id, v, kind) VALUES (@{[ $_ % 50 ]}, @{[ 1000000 + $_ ]}, $_, 'pair'), (@{[ ($_ * 7 + 1) % 50 ]}, @{[ 1000000 + $_ ]}, $_, 'pair') RETURNING id;\n" } 1 .. 20000);
my $writer = IPC::Run::start([ 'stdbuf', '-oL', 'psql', '-XqAt', '-f', "$basedir/pairs.sql", '-h', $coordinator->host, '-p', $coordinator->port, 'postgres' ], '<', '/dev/null', '>', "$basedir/acknowledged", '2>', "$basedir/told");
for my $round (1 .. 5)
{
	my $so_far = ask('SELECT count(*) FROM spread_f WHERE id > 1000000');
	$coordinator->poll_query_until('postgres', "SELECT count(*) > $so_far FROM spread_f WHERE id > 1000000") or die 'nothing is written';
	kill_all($workers[1]);
	$workers[1]->start;
}
$writer->kill_kill;
like(slurp_file("$basedir/told"), qr/ERROR/, 'the writer was told of the deaths');
$coordinator->poll_query_until('postgres', q{SELECT count(*) = 0 FROM run_command_on_workers('SELECT count(*) FROM pg_stat_activity WHERE backend_type = ''client backend'' AND query ~ ''pair'' AND pid <> pg_backend_pid()') WHERE result <> '0'});
ask('SELECT recover_prepared_transactions()');
is(ask(q{SELECT string_agg(result, ' ') FROM run_command_on_workers('SELECT count(*) FROM pg_prepared_xacts')}), '0 0', 'no transaction is left in doubt');
my %acknowledged = map { $_ => 1 } grep { /^1\d{6}$/ } split /\n/, slurp_file("$basedir/acknowledged");
my %found = map { $_ => 1 } split /\n/, ask('SELECT id FROM spread_f WHERE id > 1000000');
cmp_ok(scalar(keys %acknowledged), '>', 50, 'acknowledged: ' . keys %acknowledged);
is(scalar(grep { !$found{$_} } keys %acknowledged), 0, 'what was acknowledged is there');
is(ask('SELECT count(*) FROM (SELECT id FROM spread_f WHERE id > 1000000 GROUP BY id HAVING count(*) <> 2) s'), '0', 'each pair is there, or none of it');
shards_are_sound('killed', 'spread_f', 13);
ask('DELETE FROM spread_f WHERE id > 1000000');
tables_are_alike('killed', 'spread');
answered_alike('killed', @queries);

# fpbtree beside btree on 32 shards, in turns.
if ($ENV{FPBTREE_FIGURE})
{
	ask('DROP TABLE lines, later, parts, people, moved, alone', map { ("DROP TABLE ${_}_f", "DROP TABLE ${_}_b") } sort keys %kinds);
	for (@methods)
	{
		my ($letter, $method) = @$_;
		ask("CREATE TABLE accounts_$letter (aid int, bid int, abalance int, filler char(84), PRIMARY KEY (aid) WITH (method = $method))",
			'SET citus.shard_count = 32', "SELECT create_distributed_table('accounts_$letter', 'aid')",
			"INSERT INTO accounts_$letter SELECT i, i / 100000, 0, '' FROM generate_series(1, 1000000) i",
			"CREATE INDEX ON accounts_$letter USING $method (bid, abalance)", "VACUUM ANALYZE accounts_$letter");
		diag("$method: bytes of indexes: " . ask("SELECT sum(result::bigint) FROM run_command_on_shards('accounts_$letter', \$\$SELECT pg_indexes_size('%s')\$\$)"));
	}
	for my $round (1 .. 6)
	{
		for ($round % 2 ? @methods : reverse @methods)
		{
			my ($letter, $method) = @$_;
			start_load($coordinator, 8, 20, "\\set aid random(1, 1000000)\n\\set delta random(-5000, 5000)\nUPDATE accounts_$letter SET abalance = abalance + :delta WHERE aid = :aid;\nSELECT abalance FROM accounts_$letter WHERE aid = :aid;\n" => 1)->finish;
			my ($tps) = slurp_file($coordinator->basedir . '/pgbench.log') =~ /tps = ([\d.]+)/;
			diag("$method: round $round: $tps transactions a second");
		}
	}
}
server_is_clean($_, $_->name) for $coordinator, $workers[0];
$_->stop for @nodes;
done_testing();
