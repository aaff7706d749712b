# Aggregates over the columns of an index, and rows of these: random queries, each answered from the index's pages, by a
# sequential scan of the same table, and by btree from a table with the same rows, in one snapshot, beside writers, VACUUM,
# and indexes that are rebuilt, made and dropped. FPBTREE_QUERIES says how many queries, FPBTREE_SEED repeats those of
# another run; what the load has made of the table by then it does not repeat.
use strict;
use warnings;
use List::Util qw(min shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $count = $ENV{FPBTREE_QUERIES} // 1500;
my $seed = $ENV{FPBTREE_SEED} // int(rand(1 << 31));
my $repeat = "FPBTREE_SEED=$seed FPBTREE_QUERIES=$count";
note $repeat;

my $node = PostgreSQL::Test::Cluster->new('aggregates');
$node->init(extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'fpbtree'
shared_buffers = 16MB
autovacuum = off
jit = off
synchronous_commit = off
max_wal_size = 2GB
CONF
$node->start;
my $forced_parallel = $node->pg_version->major >= 16 ? 'debug_parallel_query' : 'force_parallel_mode';

# What is indexed. Where an expression is, queries have that for a column; of a partial index they want no more than it has;
# of some, "counts", often how many rows there are.
my %indexes = (
	f_a => { columns => ['a'] },
	f_ab => { columns => [ 'a', 'b' ] },
	f_sdo => { columns => [ 's', 'd', 'o' ], definition => 's DESC NULLS LAST, d DESC, o' },
	f_b => { columns => ['b'], definition => 'b DESC NULLS FIRST' },
	f_d => { columns => ['d'], definition => 'd NULLS FIRST' },
	f_x => { columns => ['x'], counts => 1 },
	f_dx => { columns => [ 'd', 'x' ], counts => 1 },
	f_k => { columns => ['k'], definition => 'k) INCLUDE (x', counts => 1 },
	f_ta => { columns => [ 't', 'a' ] },
	f_os => { columns => [ 'o', 's' ], definition => 'o DESC, s' },
	f_oab => { columns => [ 'o', 'a', 'b' ], definition => 'o, a DESC NULLS LAST, b' },
	f_my => { columns => [ 'm', 'y' ], definition => 'm, y DESC' },
	f_rs => { columns => [ 'r', 's' ] },
	f_qa => { columns => [ 'q', 'a' ], counts => 1 },
	f_em => { columns => [ 'e', 'm' ], counts => 1 },
	f_ae => { columns => [ 'a', 'e' ], definition => 'a, e DESC', counts => 1 },
	f_part => { columns => [ 's', 'a' ], where => 's > 20' },
	f_expression => { columns => [ '(a % 10)', 'b' ] },
	# There and not there under the load.
	f_now_and_then => { columns => [ 's', 'b' ] });
my @lasting = grep { $_ ne 'f_now_and_then' } sort keys %indexes;

sub index_on
{
	my ($table, $method, $index, $how) = @_;
	my ($columns, $where) = ($indexes{$index}{definition} // join(', ', @{ $indexes{$index}{columns} }), $indexes{$index}{where});
	return "CREATE INDEX $how @{[ $index =~ s/^f/$table/r ]} ON $table USING $method ($columns)" . ($where ? " WHERE $where" : '') . ";\n";
}

# Table b gets whatever f gets, in the same transaction.
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
-- Of a label put between others the number says nothing.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'fair' BEFORE 'ok';
CREATE TABLE f (k bigint, a int, b bigint, s smallint, d date, o bool, x text, t timestamptz, r float8, m time, y oid, q numeric(8, 2), e mood, n int)
	WITH (autovacuum_enabled = off, fillfactor = 90);
CREATE TABLE b (LIKE f) WITH (autovacuum_enabled = off);
CREATE SEQUENCE numbers;
CREATE SEQUENCE own_numbers START 1000000000000;
CREATE FUNCTION one_of(rare anyarray, usual anyelement) RETURNS anyelement LANGUAGE sql AS
	'SELECT CASE WHEN random() < 0.06 THEN rare[1 + floor(random() * cardinality(rare))] ELSE usual END';
CREATE FUNCTION fresh(rows int, numbers regclass DEFAULT 'numbers') RETURNS SETOF f LANGUAGE sql AS $$
	SELECT nextval(numbers), one_of('{NULL,NULL,-2147483648,2147483647}', floor(100 * random() ^ 2)::int),
		one_of('{NULL,NULL,-9223372036854775808,9223372036854775807}',
			CASE WHEN random() < 0.5 THEN floor(100 * random() - 50)::bigint * 100000000000000 ELSE (random() * 1e18 - 5e17)::bigint END),
		one_of('{NULL,NULL,-32768,32767}', floor(40 * random())::smallint),
		one_of('{NULL,-infinity,infinity,4713-01-01 BC}', date '2024-01-01' + floor(500 * random())::int),
		one_of('{NULL,t}', random() < 0.7),
		one_of(ARRAY[NULL, '', 'words ' || repeat('and words ', 30)], 'word ' || floor(300 * random())),
		one_of('{NULL,-infinity,infinity}', timestamptz '2024-01-01 00:00+00' + floor(2000 * random()) * interval '1 hour'),
		one_of('{NULL,NaN,-Infinity,Infinity,5e-324}', floor(200 * random()) / 8),
		one_of('{NULL,00:00,24:00,23:59:59.999999}', time '00:00' + floor(1440 * random()) * interval '1 minute'),
		one_of('{NULL,0,4294967295}', floor(CASE WHEN random() < 0.5 THEN 50 ELSE 4294967295 END * random())::bigint::oid),
		one_of('{NULL,-999999.99,999999.99}', floor(500 * random())::numeric / 4),
		one_of('{NULL}', (enum_range(NULL::mood))[1 + floor(4 * random())::int]), 0
	FROM generate_series(1, rows) $$;
CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP <> 'INSERT' THEN
		DELETE FROM b WHERE k IN (SELECT k FROM gone);
	END IF;
	IF TG_OP <> 'DELETE' THEN
		INSERT INTO b SELECT * FROM come;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER inserted AFTER INSERT ON f REFERENCING NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION follow();
CREATE TRIGGER updated AFTER UPDATE ON f REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION follow();
CREATE TRIGGER deleted AFTER DELETE ON f REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION follow();
SELECT setseed(0.5);
INSERT INTO f SELECT * FROM fresh(8000);
SQL
$node->safe_psql('postgres', join '', map { index_on('f', 'fpbtree', $_, ''), index_on('b', 'btree', $_, '') } @lasting);
$node->safe_psql('postgres', "INSERT INTO f SELECT * FROM fresh(2000);\nVACUUM ANALYZE f;\nVACUUM ANALYZE b;");

$node->safe_psql('postgres', <<'SQL');
-- Leaves the planner one way.
CREATE FUNCTION go(way text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config(name, value::text, true) FROM (VALUES ('fpbtree.custom_scans', way = 'node'), ('enable_seqscan', way = 'table'),
		('enable_indexscan', way <> 'table'), ('enable_indexonlyscan', way <> 'table'), ('enable_bitmapscan', way = 'btree')) s(name, value) $$;
-- What a query answers that way, and how it is planned. Where it orders its rows, in that order.
CREATE FUNCTION answer(way text, query text, ordered bool, types text, arguments text[], OUT answer text, OUT plan text) LANGUAGE plpgsql AS $$
DECLARE
	prepared text := way || md5(query || ordered);
	argument text;
	part text;
	line text;
BEGIN
	PERFORM go(way);
	query := format('SELECT string_agg(s::text, E''\n''%s) FROM (%s) s', CASE WHEN ordered THEN '' ELSE ' ORDER BY s::text COLLATE "C"' END,
		replace(query, '@', CASE way WHEN 'btree' THEN 'b' ELSE 'f' END));
	IF types IS NULL THEN
		EXECUTE query INTO answer;
	ELSE
		-- Prepared once a session: the plan outlives changes of the indexes.
		PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
		IF NOT EXISTS (SELECT FROM pg_prepared_statements WHERE name = prepared) THEN
			EXECUTE format('PREPARE %I (%s) AS %s', prepared, types, query);
		END IF;
		FOREACH argument IN ARRAY arguments LOOP
			query := format('EXECUTE %I (%s)', prepared, argument);
			EXECUTE query INTO part;
			answer := concat_ws(E'\n', answer, 'with ' || argument, part);
		END LOOP;
	END IF;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := concat_ws(E'\n', plan, line);
	END LOOP;
END $$;
CREATE FUNCTION pause() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	IF random() < 0.02 AND current_setting('fpbtree.custom_scans')::bool THEN
		PERFORM pg_sleep(0.002);
	END IF;
	RETURN true;
END $$;
-- What two answers do not have in common, in short.
CREATE FUNCTION apart(one text, other text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce((SELECT string_agg(l, ' ; ') FROM (SELECT unnest(string_to_array(one, E'\n')) EXCEPT ALL SELECT unnest(string_to_array(other, E'\n')) LIMIT 5) s(l)),
		CASE WHEN one IS NULL THEN 'no row' ELSE 'the same rows' END) $$;
CREATE FUNCTION compared(query text, ordered bool, types text DEFAULT NULL, arguments text[] DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	by_node record := answer('node', query, ordered, types, arguments);
	by_table record := answer('table', query, ordered, types, arguments);
	by_btree record := answer('btree', query, ordered, types, arguments);
BEGIN
	IF by_node.answer IS NOT DISTINCT FROM by_table.answer AND by_node.answer IS NOT DISTINCT FROM by_btree.answer THEN
		RETURN CASE WHEN by_node.plan ~ 'Custom Scan' THEN 'node' ELSE 'none' END;
	END IF;
	RETURN concat_ws(' | ', 'DIFFERENT: ' || query, types, array_to_string(arguments, ' / '),
		'index against table: ' || apart(by_node.answer, by_table.answer), 'table against index: ' || apart(by_table.answer, by_node.answer),
		'btree against table: ' || apart(by_btree.answer, by_table.answer), 'table against btree: ' || apart(by_table.answer, by_btree.answer),
		replace(by_node.plan, E'\n', ' / '));
END $$;
-- The same of two cursors, whose rows are fetched in turn: what is changed meanwhile neither shows.
CREATE FUNCTION compared_in_steps(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	by_node refcursor;
	by_table refcursor;
	one record;
	other record;
	node bool := false;
	line text;
	steps int := 0;
BEGIN
	query := format('SELECT s::text FROM (%s) s', replace(query, '@', 'f'));
	PERFORM go('table');
	OPEN by_table FOR EXECUTE query;
	PERFORM go('node');
	OPEN by_node FOR EXECUTE query;
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		node := node OR line ~ 'Custom Scan';
	END LOOP;
	LOOP
		FETCH by_node INTO one;
		FETCH by_table INTO other;
		EXIT WHEN one.s IS NULL AND other.s IS NULL OR steps = 200;
		IF one.s IS DISTINCT FROM other.s THEN
			RETURN concat_ws(' | ', 'DIFFERENT: ' || query, 'in step ' || steps, 'index: ' || one.s, 'table: ' || other.s);
		END IF;
		CASE steps % 20
			WHEN 1 THEN INSERT INTO f SELECT * FROM fresh(20, 'own_numbers');
			WHEN 5 THEN DELETE FROM f WHERE k >= 1000000000000 AND k % 7 = steps % 7;
			WHEN 9 THEN UPDATE f SET a = 5, s = 25, b = k WHERE k >= 1000000000000 AND k % 7 = steps % 7;
			ELSE NULL;
		END CASE;
		steps := steps + 1;
	END LOOP;
	CLOSE by_node;
	CLOSE by_table;
	RETURN CASE WHEN node THEN 'node' ELSE 'none' END;
END $$;
SQL

sub chance { return rand() < $_[0]; }
sub one_of { return $_[ rand @_ ]; }
sub some_of { my ($most, @of) = @_; return (shuffle @of)[ 0 .. min($most, scalar @of) - 1 ]; }

# Columns: a value as it is in the table or nearly, its type, and the same from a number v that another table gives.
my $numbers = sub { my ($below, @rare) = @_; return sub { return chance(0.1) ? one_of(@rare) : int rand $below; } };
my %columns = (
	k => { type => 'bigint', like => $numbers->(20000, -1, '1000000000000', '9223372036854775807'), of => 'v * 1000' },
	a => { type => 'int', like => $numbers->(105, -3, '-2147483648', '2147483647', 1000), of => 'v' },
	b => { type => 'bigint', like => sub { return chance(0.1) ? one_of('-9223372036854775808', '9223372036854775807', 0, 77) : (int rand 104) - 52 . '00000000000000'; }, of => '(v - 6) * 100000000000000' },
	s => { type => 'smallint', like => $numbers->(42, -1, '-32768', '32767'), of => 'v::smallint' },
	d => { type => 'date', like => sub { return chance(0.1) ? one_of('-infinity', 'infinity', '4713-01-01 BC') : sprintf '202%d-%02d-%02d', 4 + rand 2, 1 + rand 12, 1 + rand 28; }, of => q{date '2024-01-01' + v} },
	o => { type => 'bool', like => sub { return one_of('t', 'f'); }, of => '(v % 2 = 0)' },
	x => { type => 'text', like => sub { return chance(0.1) ? one_of('', 'word', 'words') : 'word ' . int rand 310; }, of => q{'word ' || v} },
	t => { type => 'timestamptz', like => sub { return chance(0.1) ? one_of('-infinity', 'infinity') : sprintf '2024-%02d-%02d %02d:00+00', 1 + rand 3, 1 + rand 28, rand 24; }, of => q{timestamptz '2024-01-01 00:00+00' + v * interval '1 hour'} },
	r => { type => 'float8', like => sub { return chance(0.1) ? one_of('NaN', '-Infinity', 'Infinity', '5e-324') : 0.5 * int rand 60; }, of => 'v::float8' },
	m => { type => 'time', like => sub { return chance(0.1) ? one_of('24:00', '00:00') : sprintf '%02d:%02d', rand 24, rand 60; }, of => q{time '00:00' + v * interval '1 minute'} },
	y => { type => 'oid', like => $numbers->(60, '4294967295', '2147483648'), of => 'v::oid' },
	q => { type => 'numeric', like => sub { return chance(0.1) ? one_of('-999999.99', '999999.99') : 0.25 * int rand 500; }, of => 'v / 4.0' },
	e => { type => 'mood', like => sub { return one_of('sad', 'fair', 'ok', 'happy'); }, of => '(enum_range(NULL::mood))[v]' },
	'(a % 10)' => { type => 'int', like => $numbers->(11, -8, 100), of => 'v' });
my $is_integer = qr/int$/;

# The parameters of the query being made, if it is to be prepared; whether numbers come from outside.
my ($parameters, $from_outside) = (undef, 0);

# A value to compare a column with, or an array of them: a parameter, another table's or query's, or a constant, which may be
# of a type that is not the column's.
sub value
{
	my ($column) = @_;
	my ($type, $like, $of) = @{ $columns{$column} }{qw(type like of)};
	if ($from_outside && chance(0.7)) { return chance(0.15) ? "CASE WHEN v <> 3 THEN $of END" : $of; }
	if ($parameters && chance(0.8))
	{
		push @$parameters, { type => $type, like => sub { return chance(0.05) ? 'NULL' : "'" . $like->() . "'"; } };
		return '$' . @$parameters;
	}
	return "(SELECT @{[ one_of('min', 'max') ]}($column) FROM @ WHERE @{[ chance(0.5) ? 'true' : one_of('s = 7', 'a < 5', 'd IS NOT NULL') ]})" if $type ne 'bool' && chance(0.04);
	my $value = $like->();
	return chance(0.03) ? 'NULL' : "'$value'" unless $type =~ $is_integer && chance(0.6);
	return chance(0.8) ? $value : "'$value'::" . one_of('bigint', 'numeric');
}

sub values_of
{
	my ($column) = @_;
	my ($type, $like) = @{ $columns{$column} }{qw(type like)};
	if ($parameters && chance(0.5))
	{
		push @$parameters, { type => "$type\[]", like => sub { return "'" . array_of($like) . "'"; } };
		return '= ANY ($' . @$parameters . ')';
	}
	return "= ANY ('@{[ array_of($like) ]}'::$type\[])" if chance(0.5);
	return 'IN (' . join(', ', map { value($column) } 0 .. rand 4) . ')';
}

sub array_of
{
	my ($like) = @_;
	return '{' . join(',', map { chance(0.05) ? 'NULL' : '"' . $like->() . '"' } 1 .. rand 6) . '}';
}

# A condition, and whether it holds for one value of the column alone. Few are such that no index decides them.
sub condition
{
	my ($column) = @_;
	my $type = $columns{$column}{type};
	return one_of("$column <> @{[ value($column) ]}", "NOT ($column @{[ values_of($column) ]})", "($column = @{[ value($column) ]} OR $column IS NULL)",
		"n >= 0", "($column, k) > (@{[ value($column) ]}, 100)", 'EXISTS (SELECT FROM @ WHERE s = 7)', "current_setting('work_mem') <> ''") if chance(0.05);
	return one_of($column, "NOT $column", "$column IS TRUE", "$column IS NOT FALSE") if $type eq 'bool' && chance(0.4);
	return ("$column = " . value($column), 1) if chance(0.3);
	return "$column @{[ one_of('<', '<=', '>', '>=') ]} " . value($column) if chance(0.35);
	return value($column) . " @{[ one_of('<', '<=', '=', '>=', '>') ]} $column" if chance(0.1);
	return "$column BETWEEN " . value($column) . ' AND ' . value($column) if chance(0.35);
	return "$column " . values_of($column) if chance(0.5);
	return "$column IS @{[ one_of('', 'NOT ') ]}NULL";
}

# An aggregate of a column, maybe of some rows alone: as a condition on one of these columns says.
sub aggregate
{
	my ($column, @others) = @_;
	my $type = $columns{$column}{type};
	return 'count(*)' if chance(0.22);
	my @names = ('count', $type eq 'bool' ? ('bool_and', 'bool_or', 'every') : ('min', 'max'), $type =~ $is_integer || $type eq 'numeric' || $type eq 'float8' ? ('sum', 'avg', 'sum') : ());
	my $call = one_of(@names) . "($column)";
	return (chance(0.5) ? 'count(*)' : $call) . ' FILTER (WHERE ' . (condition(one_of(@others)))[0] . ')' if @others && chance(0.15);
	return "count(DISTINCT $column)" if chance(0.06);
	return one_of("count(DISTINCT $column) FILTER (WHERE $column IS NOT NULL)", "$call FILTER (WHERE $column IS NOT NULL)", 'count(z)', "array_length(array_agg($column), 1)") if chance(0.03);
	return one_of("coalesce(${call}::text, 'none')", "(SELECT $call)", "$call IS NULL", "count(*) + count($column)", "count($column) * 2 AS twice") if chance(0.1);
	return $call;
}

# Of groups, or of all rows.
sub having
{
	my ($column, $groups) = @_;
	return one_of('count(*) > ' . int rand($groups ? 30 : 15000), 'count(*) % 2 = 0', 'count(*) > (SELECT count(*) / 300 FROM @)', "count($column) < count(*)", aggregate($column) =~ s/ AS .*//r . ' IS NOT NULL',
		$groups ? "$column @{[ one_of('>', '<=') ]} " . value($column) : 'false');
}

# Columns to group by: mostly as the index begins, without those that have one value.
sub grouping
{
	my ($one_value, @columns) = @_;
	return some_of(1 + rand @columns, @columns) if chance(0.1);
	my @group = @columns[ 0 .. (chance(0.3) ? 0 : int rand(@columns + 1)) - 1 ];
	@group = grep { !$one_value->{$_} } @group if chance(0.6);
	return shuffle @group;
}

# An aggregation of what one index has, and whether its rows come in an order.
sub aggregation
{
	my $index = $indexes{ one_of(sort keys %indexes) };
	my @columns = @{ $index->{columns} };
	my (@conditions, %one_value);
	for my $column (map { one_of(@columns) } 1 .. one_of(0, 0, 1, 1, 1, 2, 2, 3))
	{
		my ($condition, $one) = condition($column);
		push @conditions, $condition;
		$one_value{$column} = 1 if $one;
	}
	push @conditions, one_of($index->{where}, $index->{where}, 's >= 25', 's = 33', 's IN (22, 30)') if $index->{where};
	return rows_of($index, @conditions) if chance(0.2);
	my @group = grouping(\%one_value, @columns);
	my @aggregates = map { $index->{counts} && chance(0.2) ? 'count(*)' : aggregate(one_of(@columns), @columns) } 1 .. one_of(@group ? 0 : 1, 1, 1, 2, 2, 3, 4);
	if (chance(0.2))
	{
		# For what groups there are, and where they end, most rows need not be looked at.
		my $next = $columns[ min(scalar @group, $#columns) ];
		@aggregates = some_of(@group ? int rand 3 : 1 + int rand 2, map { "$_($next)" } $columns{$next}{type} eq 'bool' ? ('bool_and', 'bool_or') : ('min', 'max'));
		return distinct(\@group, @conditions) if @group && chance(0.3);
	}
	my @list = shuffle((chance(0.9) ? @group : some_of(1, @group)), @aggregates);
	# What is made of groups.
	push @list, one_of('rank() OVER (ORDER BY count(*))', 'count(*) % 7 AS remainder', $from_outside ? 'count(*) + v' : 'pg_typeof(count(*))',
		@group && $group[0] =~ /^[abs]$/ ? "(SELECT count(*) FROM generate_series(1, 30) y WHERE y > z.$group[0])" : "'groups'::text") if !@list || chance(0.08);
	my $query = 'SELECT ' . join(', ', @list) . ' FROM @ z';
	$query .= ' WHERE ' . join ' AND ', shuffle @conditions if @conditions;
	my $rollup = @group && chance(0.02);
	$query .= ' GROUP BY ' . ($rollup ? 'ROLLUP (' . join(', ', @group) . ')' : join ', ', @group) if @group;
	$query .= ' HAVING ' . having(one_of(@group ? @group : @columns), scalar @group) if chance(0.2);
	return ($query, 0) if !@group || $rollup || chance(0.6);
	# The order is total, so that LIMIT leaves no choice.
	$query .= ' ORDER BY ' . (chance(0.2) ? 'count(*), ' : '') . join ', ', map { $_ . one_of('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') } (chance(0.5) ? @group : shuffle @group);
	$query .= ' LIMIT ' . int rand 40 if chance(0.5);
	$query .= ' OFFSET ' . int rand 30 if chance(0.3);
	return ($query, 1);
}

# A key of ORDER BY the other way round.
sub turned
{
	my ($key) = @_;
	my $is_first = $key =~ /DESC/ ? $key !~ /NULLS LAST/ : $key =~ /NULLS FIRST/;
	return ($key =~ s/ (?:DESC|NULLS).*//r) . ($key =~ /DESC/ ? '' : ' DESC') . ($is_first ? ' NULLS LAST' : ' NULLS FIRST');
}

# Rows of what an index has, in its order or the opposite one, or one of each group of them. Those that are equal look the same.
sub rows_of
{
	my ($index, @conditions) = @_;
	my @columns = @{ $index->{columns} };
	my @order = ($index->{definition} // ')') =~ /\)/ ? @columns : split /,\s*/, $index->{definition};
	@order = map { turned($_) } @order if chance(0.4);
	my $of = '';
	if (@columns > 1 && chance(0.4))
	{
		my $depth = 1 + int rand $#columns;
		$of = 'DISTINCT ON (' . join(', ', @columns[ 0 .. $depth - 1 ]) . ') ';
		@order[ $depth .. $#order ] = map { turned($_) } @order[ $depth .. $#order ] if chance(0.5);
	}
	my @shown = chance(0.6) ? @columns : some_of(1, @columns);
	push @shown, one_of("$columns[0] IS NULL", "upper($columns[0]::text)", 'pause()') if chance(0.2);
	my $query = "SELECT $of" . join(', ', @shown) . ' FROM @ z' . (@conditions ? ' WHERE ' . join ' AND ', shuffle @conditions : '') . ' ORDER BY ' . join ', ', @order;
	return ($query, 1) if chance(0.6);
	return ("SELECT * FROM ($query LIMIT " . int(rand 300) . ' OFFSET ' . (chance(0.5) ? 0 : int rand 200) . ') y', 1);
}

# The values that columns have.
sub distinct
{
	my ($columns, @conditions) = @_;
	my $query = 'SELECT DISTINCT ' . join(', ', @$columns) . ' FROM @ z' . (@conditions ? ' WHERE ' . join ' AND ', @conditions : '');
	return ($query, 0) if chance(0.5);
	return ($query . ' ORDER BY ' . join(', ', map { $_ . one_of('', '', ' DESC') } @$columns) . (chance(0.5) ? ' LIMIT ' . int rand 20 : ''), 1);
}

# With values from outside: the same again and again for others.
sub repeated
{
	my ($query, $ordered);
	$from_outside = 1;
	do { ($query, $ordered) = aggregation(); } until $query =~ /\bv\b/;
	$from_outside = 0;
	my $outside = sprintf 'generate_series(%d, %d) v', rand(4) - 1, rand 8;
	return "SELECT v, z.* FROM $outside, LATERAL ($query) z" if chance(0.4);
	return "SELECT v, z.* FROM $outside LEFT JOIN LATERAL ($query) z ON true" if chance(0.2);
	return "SELECT v, (SELECT w::text FROM ($query LIMIT 1) w) FROM $outside" if $ordered && $query !~ /LIMIT|OFFSET/ || $query !~ /GROUP BY|SELECT DISTINCT/;
	return "SELECT v FROM $outside WHERE @{[ one_of('', 'NOT ') ]}EXISTS ($query)";
}

# A query with an aggregation somewhere in it, and whether its rows come in an order.
sub query
{
	my ($query, $ordered) = aggregation();
	return ($query, $ordered) if chance(0.6);
	return (repeated(), 0) if chance(0.6);
	return ("SELECT count(*), count(w), min(w::text) FROM ($query) w", 0) if chance(0.3);
	# Whoever asks may take time, so that pages change between two of its rows.
	return ("SELECT * FROM ($query) w WHERE pause()", $ordered) if chance(0.3);
	return ("WITH w AS MATERIALIZED ($query) SELECT * FROM w UNION ALL SELECT * FROM w", 0) if chance(0.4);
	my ($other) = aggregation();
	return ("SELECT w.*, (SELECT count(*) FROM ($other) o) FROM ($query) w", 0) if chance(0.5);
	return ("SELECT w::text, 1 FROM ($query) w UNION ALL SELECT o::text, 2 FROM ($other) o", 0);
}

# A call that compares a query's answers. Prepared ones are asked again later on.
my @prepared;
sub comparison
{
	return one_of(@prepared)->() if @prepared && chance(0.08);
	$parameters = chance(0.2) ? [] : undef;
	my ($query, $ordered) = query();
	my $call = "SELECT compared(\$q\$$query\$q\$, @{[ $ordered ? 'true' : 'false' ]}";
	return "$call);\n" unless $parameters && @$parameters;
	my @parameters = @$parameters;
	my $types = join ', ', map { $_->{type} } @parameters;
	push @prepared, sub { return "$call, '$types', ARRAY[" . join(', ', map { '$q$' . join(', ', map { $_->{like}->() } @parameters) . '$q$' } 1 .. 2) . "]);\n"; };
	return $prepared[-1]->();
}

# A call that compares what cursors fetch.
sub comparison_in_steps
{
	my ($query, $ordered);
	$parameters = undef;
	do { ($query, $ordered) = aggregation(); } until $ordered;
	return "SELECT compared_in_steps(\$q\$$query\$q\$);\n";
}

# Transactions, each of one snapshot: also in other settings, and with changes of their own, which only they see. Those are of
# all rows where nobody else changes any.
sub batch
{
	my ($queries, $is_alone) = @_;
	my @comparisons = map { comparison() } 1 .. $queries;
	my $begin = 'BEGIN ISOLATION LEVEL ' . (chance(0.1) ? 'SERIALIZABLE READ ONLY' : 'REPEATABLE READ') . ";\n";
	my $kind = rand;
	if ($kind < 0.12)
	{
		$begin .= "SET LOCAL $_;\n" for 'max_parallel_workers_per_gather = 2', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0', 'min_parallel_index_scan_size = 0';
	}
	elsif ($kind < 0.17)
	{
		$begin .= "SET LOCAL $forced_parallel = on;\n";
	}
	elsif ($kind < 0.25)
	{
		$begin .= "SET LOCAL work_mem = '64kB';\nSET LOCAL enable_hashagg = off;\n";
	}
	elsif ($kind < ($is_alone ? 0.6 : 0.4))
	{
		my $own = 'k >= ' . ($is_alone ? 0 : 1000000000000);
		my $changes = <<"SQL";
INSERT INTO f SELECT * FROM fresh(300, 'own_numbers');
SAVEPOINT own;
DELETE FROM f WHERE $own;
ROLLBACK TO own;
DELETE FROM f WHERE $own AND (k % 5 = 0 OR k % 997 > 500 OR a BETWEEN 10 AND 20 OR s < 12 OR d > date '2025-01-01');
UPDATE f SET a = s, d = NULL, o = NOT o WHERE $own AND k % 5 = 1;
UPDATE f SET n = n + 1 WHERE $own AND k % 5 IN (1, 2);
SQL
		$_ = comparison_in_steps() for @comparisons[ grep { $_ % 4 == 0 } 0 .. $#comparisons ];
		splice @comparisons, @comparisons / 2, 0, $changes . "SAVEPOINT more;\n" . $changes;
		splice @comparisons, @comparisons * 3 / 4, 0, "ROLLBACK TO more;\n";
		return $begin =~ s/SERIALIZABLE READ ONLY/REPEATABLE READ/r . $changes . join('', @comparisons) . "ROLLBACK;\n";
	}
	return $begin . join('', @comparisons) . "COMMIT;\n";
}

my ($asked, $with_node) = (0, 0);

# Compares the answers of such batches, and returns what is wrong with them.
sub compare_all
{
	my (@batches) = @_;
	# Long enough for any of them, and no end for one that has none.
	my ($status, $out, $err) = $node->psql('postgres', join('', "SET statement_timeout = '60s';\n", @batches), on_error_stop => 0);
	my @answers = split /\n/, $out;
	my @wrong = grep { !/^n/ } @answers;
	$asked += @answers;
	$with_node += grep { $_ eq 'node' } @answers;
	push @wrong, grep { !/current transaction is aborted/ } split /^(?=psql)/m, $err;
	push @wrong, "status $status" if $status != 0;
	return @wrong;
}

# Compares so many random queries' answers, a session for some hundreds.
sub compare
{
	my ($queries) = @_;
	my @wrong;
	while ($queries > 0)
	{
		my @batches;
		@prepared = ();
		for (1 .. 25)
		{
			push @batches, batch(min($queries, 20)) if $queries > 0;
			$queries -= 20;
		}
		push @wrong, compare_all(@batches);
	}
	return @wrong;
}

sub all_alike
{
	my ($name, @wrong) = @_;
	is(scalar(@wrong), 0, "$name: the answers are the same") or diag(join "\n", $repeat, @wrong[ 0 .. min(5, scalar @wrong) - 1 ]);
	return;
}

# Writers do not wait for each other's rows, each in an order of its own. Some empty whole pages.
my $where = "\\gset\n\\set low random(1, :top)\n\\set a random(0, 99)\n";
my $mine = 'k % 2 = :client_id';
my $some = "k BETWEEN :low AND :low + 40 AND $mine";
my $swept = sub { return "${where}DELETE FROM f WHERE k = ANY (ARRAY(SELECT k FROM f WHERE $_[0] FOR UPDATE SKIP LOCKED));\n" };
my %writes = (
	"INSERT INTO f SELECT * FROM fresh(20);\n" => 16,
	"${where}UPDATE f SET a = :a, b = b / 2, t = t + interval '1 hour' WHERE $some;\n" => 4,
	"${where}UPDATE f SET s = :a % 40, d = d + 1, o = NOT o, r = :a, m = '12:34', y = :a, q = 2.5, e = 'fair', x = 'word ' || :a WHERE $some;\n" => 4,
	"${where}UPDATE f SET n = n + 1 WHERE $some;\n" => 4,
	"${where}DELETE FROM f WHERE $some;\n" => 8,
	$swept->('k BETWEEN :low AND :low + 300') => 1,
	$swept->('b BETWEEN (:a - 50) * 10000000000000000 AND (:a - 49) * 10000000000000000') => 1,
	$swept->(q{t BETWEEN timestamptz '2024-01-01 00:00+00' + :a * interval '20 hours' AND timestamptz '2024-01-02 00:00+00' + :a * interval '20 hours'}) => 1,
	$swept->(q{d BETWEEN date '2024-01-01' + 5 * :a AND date '2024-01-10' + 5 * :a}) => 1,
	$swept->('a = :a AND a > 10') => 1,
	"${where}BEGIN;\nUPDATE f SET a = a / 2, s = NULL WHERE $some;\nDELETE FROM f WHERE d = date '2024-01-01' + :a AND $mine;\nINSERT INTO f SELECT * FROM fresh(30);\n\\sleep 30 ms\nROLLBACK;\n" => 2,
	"${where}BEGIN;\nDELETE FROM f WHERE $some;\nSAVEPOINT one;\nINSERT INTO f SELECT * FROM fresh(30);\nUPDATE f SET b = NULL, x = NULL WHERE $some;\n\\sleep 20 ms\nROLLBACK TO one;\n"
	  . "INSERT INTO f SELECT * FROM fresh(20);\nSAVEPOINT two;\nUPDATE f SET d = NULL, t = NULL WHERE $some;\nRELEASE two;\nCOMMIT;\n" => 3);
%writes = map { /^\\gset/m ? "SELECT last_value AS top FROM numbers $_" : $_ => $writes{$_} } keys %writes;
my %maintenance = (
	"VACUUM f;\nVACUUM b;\n" => 60,
	"VACUUM (INDEX_CLEANUP ON, FREEZE) f;\nVACUUM b;\n" => 20,
	index_on('f', 'fpbtree', 'f_now_and_then', 'CONCURRENTLY IF NOT EXISTS') . "\\sleep 500 ms\nDROP INDEX CONCURRENTLY f_now_and_then;\n" => 3,
	"REINDEX INDEX f_ab;\n" => 1, map { ("REINDEX INDEX CONCURRENTLY $_;\n" => 1) } @lasting);

# Both loads' sessions end what they are at.
sub stop
{
	my (@loads) = @_;
	$_->signal('TERM') for @loads;
	$_->finish for @loads;
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'}) or die 'not stopped';
	return;
}

# What differs is noticed: between the tables, between the ways, and in order alone.
my @noticed = compare_all(<<'SQL');
SELECT compared($q$SELECT '@' AS name, count(*) FROM @$q$, false);
SELECT compared($q$SELECT count(*) FROM @ WHERE current_setting('fpbtree.custom_scans')::bool$q$, false);
SELECT compared($q$SELECT g FROM generate_series(1, 3) g ORDER BY CASE current_setting('enable_seqscan') WHEN 'on' THEN -g ELSE g END$q$, true);
SQL
is(scalar(@noticed), 3, 'different answers are noticed');
like($noticed[0], qr/index against table: the same rows .*btree against table: \(b,10000\) \| table against btree: \(f,10000\)/, 'of different tables');
like($noticed[1], qr/index against table: \(10000\) \| table against index: \(0\)/, 'in different ways');
like($noticed[2], qr/index against table: the same rows/, 'in a different order');
is(scalar(compare_all(q{SELECT compared('SELECT count(*), sum(a) FROM @', false);})), 0, 'and others are not');
($asked, $with_node) = (0, 0);

# Not before: a server's start asks for random numbers, too.
srand $seed;
my $log = -s $node->logfile;
my $files = 'SELECT sum(relfilenode::bigint) FROM pg_class WHERE relname = ANY (\'{' . join(',', @lasting) . '}\')';
my $before = $node->safe_psql('postgres', $files);
my @loads = (start_load($node, 2, 7200, rate => 40, %writes), start_load($node, 1, 7200, rate => 5, %maintenance));
my @wrong = compare($count);
stop(@loads);
all_alike('under load', @wrong);
is($asked, $count, 'under load: all queries were compared');
cmp_ok(3 * $with_node, '>=', $asked, "under load: many of them by the index ($with_node of $asked)");
SKIP:
{
	skip 'too few queries for much of a load', 2 if $count < 1000;
	is($node->safe_psql('postgres', <<'SQL'), 't|t|t', 'under load: there was one');
SELECT n_tup_upd > 500, n_tup_del > 500, vacuum_count > 5 FROM pg_stat_user_tables WHERE relname = 'f'
SQL
	isnt($node->safe_psql('postgres', $files), $before, 'under load: indexes were rebuilt');
}
my $errors = join "\n", grep { /(ERROR|FATAL): (?! current transaction is aborted| connection to client lost)/ } split /\n/, substr slurp_file($node->logfile), $log;
is($errors, '', 'under load: no statement failed');

# The same queries, where nobody else changes anything.
($asked, $with_node) = (0, 0);
my @batches = map { batch(20, 1) } 1 .. 8;
my $rows = $node->safe_psql('postgres', 'SELECT count(*), sum(a), sum(b), sum(k) FROM f');
is($node->safe_psql('postgres', 'SELECT count(*), sum(a), sum(b), sum(k) FROM b'), $rows, 'both tables have the same rows');
all_alike('after the load', compare_all(@batches));
is_sound($node, 'after the load', @lasting);
$node->safe_psql('postgres', 'VACUUM f; VACUUM b');
all_alike('after VACUUM', compare_all(@batches));
is_sound($node, 'after VACUUM', @lasting);
is($asked, 320, 'all of these were compared, too');
cmp_ok(3 * $with_node, '>=', $asked, "many by the index ($with_node of $asked)");
server_is_clean($node, 'primary');
$node->stop;
done_testing();
