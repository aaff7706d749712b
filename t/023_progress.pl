# What pg_stat_progress_create_index shows of a build: the phases that btree has, by their names, in order, and how far
# each has come.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $rows = 400_000;
my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\njit = off\nmax_parallel_maintenance_workers = 2\n");
$node->start;
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION fpbtree;
CREATE TABLE big (v int, u uuid, t text);
INSERT INTO big SELECT hashint4(i), md5(i::text)::uuid, md5(i::text) FROM generate_series(1, $rows) i;
CREATE TABLE small AS SELECT t FROM big LIMIT 300;
-- A watcher sees every phase that lasts longer than a look takes, and says what is wrong with what it sees.
CREATE FUNCTION watch(index text) RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	seen text := 'phases';
	now record;
BEGIN
	LOOP
		PERFORM pg_stat_clear_snapshot();
		SELECT substr(phase, 17) AS phase, blocks_total, blocks_done, tuples_total, tuples_done INTO now FROM pg_stat_progress_create_index WHERE phase LIKE 'building index: %';
		IF FOUND THEN
			IF right(seen, length(now.phase)) <> now.phase THEN
				seen := concat_ws(', ', seen, now.phase);
			END IF;
			IF NOT (CASE now.phase
				WHEN 'initializing' THEN true
				WHEN 'scanning table' THEN now.blocks_done <= now.blocks_total AND now.tuples_done = 0
				WHEN 'sorting live tuples' THEN now.tuples_total IN (0, $rows) AND now.tuples_done = 0
				ELSE now.tuples_total = $rows AND now.tuples_done <= $rows AND now.blocks_total = 0
			END) THEN
				RETURN concat_ws(', ', seen, 'wrong: ' || now);
			END IF;
		END IF;
		EXIT WHEN EXISTS (SELECT FROM pg_class WHERE relname = index) OR clock_timestamp() > now() + interval '1 minute';
	END LOOP;
	RETURN seen;
END \$\$;
-- What a build's own code sees.
CREATE FUNCTION phase() RETURNS text LANGUAGE sql STABLE AS
	\$\$ SELECT FROM pg_stat_clear_snapshot(); SELECT phase FROM pg_stat_progress_create_index WHERE pid = pg_backend_pid() \$\$;
CREATE FUNCTION looking(t text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
	\$\$ BEGIN RAISE NOTICE 'expression: %', public.phase(); RETURN t; END \$\$;
CREATE FUNCTION looking_cmp(a text, b text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
	\$\$ BEGIN RAISE NOTICE 'comparison: %', public.phase(); RETURN bttextcmp(a COLLATE "C", b COLLATE "C"); END \$\$;
CREATE OPERATOR CLASS looking_ops FOR TYPE text USING fpbtree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 looking_cmp(text, text);
CREATE OPERATOR CLASS looking_ops FOR TYPE text USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 looking_cmp(text, text);
SQL

is($node->safe_psql('postgres', <<'SQL'), "initializing\nscanning table\nsorting live tuples\nloading tuples in tree", 'the phases have names, which are btree\'s');
SELECT pg_indexam_progress_phasename(a.oid, n) FROM pg_am a, generate_series(0, 10) n WHERE amname = 'fpbtree' AND pg_indexam_progress_phasename(a.oid, n) IS NOT NULL ORDER BY n
SQL
is($node->safe_psql('postgres', <<'SQL'), '4', 'and have btree\'s numbers');
SELECT count(*) FROM pg_am f, pg_am b, generate_series(0, 10) n
 WHERE f.amname = 'fpbtree' AND b.amname = 'btree' AND pg_indexam_progress_phasename(f.oid, n) = pg_indexam_progress_phasename(b.oid, n)
SQL

# What is told while code of the index itself runs, each thing once.
sub told
{
	my ($method) = @_;
	my (undef, undef, $err) = $node->psql('postgres', "CREATE INDEX small_$method ON small USING $method (looking(t) looking_ops)");
	my %told = map { $_ => 1 } $err =~ /NOTICE:  (.*)/g;
	return join "\n", sort keys %told;
}
like(told('fpbtree'), qr/^comparison: building index: sorting live tuples$/m, 'sorted in a phase of its own');
like(told('btree'), qr/^comparison: building index: sorting live tuples$/m, 'as with btree');
$node->safe_psql('postgres', 'DROP INDEX small_fpbtree, small_btree');
like(told('fpbtree'), qr/^expression: building index: scanning table$/m, 'scanned in another');

# Phases in their order, of which a look may miss a short one: until all have been seen.
my @phases = ('scanning table', 'sorting live tuples', 'loading tuples in tree');
my $in_order = join '', 'phases', '(, initializing)?', map { "(, $_)?" } @phases;
for my $case (
	[ 'exact lanes', 'v', "maintenance_work_mem = '64MB'", 0 ],
	[ 'exact lanes, in runs', 'v', "maintenance_work_mem = '1MB'", 0 ],
	[ 'wide lanes', 'u', "maintenance_work_mem = '64MB'", 0 ],
	[ 'byte strings', 't', "maintenance_work_mem = '128MB'", 0 ],
	[ 'byte strings, in runs', 't', "maintenance_work_mem = '2MB'", 0 ],
	[ 'exact lanes, parallel', 'v', "maintenance_work_mem = '256MB'", 2 ],
	[ 'byte strings, parallel', 't', "maintenance_work_mem = '256MB'", 2 ])
{
	my ($name, $column, $setting, $workers) = @$case;
	$node->safe_psql('postgres', "ALTER TABLE big SET (parallel_workers = $workers)");
	my (%seen, @wrong);
	for my $attempt (1 .. 30)
	{
		my $out;
		my $build = IPC::Run::start(
			[
				'psql', '-XAtq', '-h', $node->host, '-p', $node->port, '-c', "SET $setting", '-c', 'SELECT pg_sleep(0.2)',
				'-c', "CREATE INDEX big_watched ON big USING fpbtree ($column)", 'postgres'
			],
			'<', \undef, '>&', \$out);
		my $watched = $node->safe_psql('postgres', q{SELECT watch('big_watched')});
		$build->finish;
		$node->safe_psql('postgres', 'DROP INDEX big_watched');
		push @wrong, $watched unless $watched =~ /^$in_order$/;
		$seen{$_} = 1 for split /, /, $watched;
		last if @wrong || !grep { !$seen{$_} } @phases;
	}
	is(join("\n", @wrong), '', "$name: phases in their order, and what is done of them");
	is(join(', ', grep { $seen{$_} } @phases), join(', ', @phases), "$name: all phases");
}
server_is_clean($node, 'primary');
$node->stop;
done_testing();
