# TimescaleDB: hypertables with fpbtree's indexes and constraints, whose chunks are made by inserts and dropped while others
# are written. The answers are those of a hypertable made alike with btree. What its Apache edition does not have (policies,
# compression, its own SkipScan) is refused by it, and looked at where it is not.
# Needs: timescaledb
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', <<'END');
shared_preload_libraries = 'timescaledb,fpbtree'
timescaledb.telemetry_level = off
fsync = off
jit = off
max_parallel_workers_per_gather = 0
restart_after_crash = off
END
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION timescaledb; CREATE EXTENSION fpbtree');
my $has_constraints = $node->pg_version->major >= 18;

# ft is a hypertable with fpbtree's indexes, some of its rows there before; bt a plain table with btree's. TimescaleDB copies
# a constraint to a chunk without its parameters, so that the method has to be the setting's.
my %method = (ft => 'fpbtree', bt => 'btree');
$node->safe_psql('postgres', 'ALTER DATABASE postgres SET fpbtree.constraints = on') if $has_constraints;
for my $table (sort keys %method)
{
	my ($key, $is_hyper) = ($has_constraints ? ", PRIMARY KEY (device, at) WITH (method = $method{$table})" : '', $table eq 'ft');
	$node->safe_psql('postgres', <<"SQL");
CREATE TABLE $table (at timestamptz NOT NULL, device int NOT NULL, v int, note text COLLATE "C"$key);
INSERT INTO $table SELECT timestamptz '2026-01-01 00:00+00' + i * interval '1 min', i % 20, hashint4(i) % 1000, 'note ' || md5(i::text) FROM generate_series(1, 5000) i;
@{[ $is_hyper ? "SELECT create_hypertable('ft', by_range('at', interval '1 day'), migrate_data => true, create_default_indexes => false);" : '' ]}
CREATE INDEX ON $table USING $method{$table} (device, v);
CREATE INDEX ON $table USING $method{$table} (at DESC);
CREATE UNIQUE INDEX ON $table USING $method{$table} (note, at) INCLUDE (v) WITH (fillfactor = 80);
INSERT INTO $table SELECT timestamptz '2026-01-04 12:00+00' + i * interval '1 min', i % 20, hashint4(i) % 1000, 'note ' || md5((i + 5000)::text) FROM generate_series(1, 15000) i;
CREATE INDEX ON $table USING $method{$table} (v)@{[ $is_hyper ? ' WITH (timescaledb.transaction_per_chunk)' : '' ]};
VACUUM ANALYZE $table;
SQL
}

# The chunks' indexes of a hypertable: their methods, and their names.
my $of_chunks = q{FROM show_chunks('%s') s (chunk) JOIN pg_index ON indrelid = chunk JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam};

sub chunks_are_sound
{
	my ($name) = @_;
	my $chunks = $node->safe_psql('postgres', q{SELECT count(*) FROM show_chunks('ft')});
	my $expected = $chunks * ($has_constraints ? 5 : 4);
	is($node->safe_psql('postgres', sprintf "SELECT amname, count(*) $of_chunks GROUP BY amname", 'ft'), "fpbtree|$expected", "$name: the indexes of $chunks chunks");
	is($node->safe_psql('postgres', sprintf "SELECT indexrelid::regclass, p FROM (SELECT indexrelid $of_chunks OFFSET 0) i, fpbtree_check(indexrelid, true) p", 'ft'), '', "$name: all of them are sound");
	return;
}
chunks_are_sound('made');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM show_chunks('ft')}), '>=', 14, 'there are chunks');
is($node->safe_psql('postgres', sprintf "SELECT DISTINCT reloptions $of_chunks WHERE indnkeyatts < indnatts", 'ft'), '{fillfactor=80}', 'a parameter is on all chunks');

my %settings = (
	sequential => 'SET enable_indexscan = off; SET enable_bitmapscan = off;',
	index => 'SET enable_seqscan = off; SET enable_bitmapscan = off;',
	bitmap => 'SET enable_seqscan = off; SET enable_indexscan = off;');

sub answer
{
	my ($query, $table, $prefix) = @_;
	$query =~ s/\{t\}/$table/g;
	my $rows = $node->safe_psql('postgres', ($prefix // '') . $query);
	return $query =~ /ORDER BY/ ? $rows : join "\n", sort split /\n/, $rows;
}

my @queries = (
	'SELECT * FROM {t} WHERE device = 3 ORDER BY at DESC LIMIT 20',
	q{SELECT at, v FROM {t} WHERE at BETWEEN '2026-01-05' AND '2026-01-06' ORDER BY at},
	q{SELECT time_bucket('6 hours', at) AS b, device, count(*), max(v) FROM {t} WHERE device < 5 GROUP BY b, device},
	'SELECT device, count(*), min(v), max(v) FROM {t} GROUP BY device',
	'SELECT DISTINCT device FROM {t}',
	'SELECT DISTINCT ON (device) device, at, v FROM {t} ORDER BY device, at DESC',
	'SELECT device, last(v, at), first(v, at) FROM {t} GROUP BY device',
	q{SELECT note, v FROM {t} WHERE note LIKE 'note 12%' ORDER BY note},
	'SELECT count(*) FROM {t} WHERE v BETWEEN 10 AND 20',
	'SELECT v, count(*) FROM {t} WHERE v > 990 GROUP BY v',
	'SELECT device, v FROM {t} WHERE device = 7 ORDER BY device, v OFFSET 300 LIMIT 5',
	'SELECT a.at, b.v FROM {t} a JOIN {t} b ON b.device = a.device AND b.at = a.at WHERE a.v = 500 ORDER BY a.at, b.v');

sub answered_alike
{
	my ($name) = @_;
	for my $query (@queries)
	{
		my $want = answer($query, 'bt');
		isnt($want, '', "$name: something to compare: $query");
		is(answer($query, 'ft', $settings{$_}), $want, "$name: $_: $query") for sort keys %settings;
	}
	return;
}
answered_alike('made');
my %plans = (
	'SELECT * FROM {t} WHERE device = 3 ORDER BY at DESC' => qr/Custom Scan \((Deferred)?ChunkAppend\).*Index Scan/s,
	q{SELECT at FROM {t} WHERE at BETWEEN '2026-01-05' AND '2026-01-06' ORDER BY at} => qr/Custom Scan \(FpbtreeRows\)/,
	'SELECT v, device FROM {t} WHERE device = 7' => qr/Custom Scan \(FpbtreeRows\)/,
	'SELECT count(*) FROM {t} WHERE v BETWEEN 10 AND 20' => qr/Custom Scan \(Fpbtree|Index Only Scan/);
for my $query (sort keys %plans)
{
	like(answer("$query /* ORDER BY */", 'ft', 'SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (COSTS OFF) '), $plans{$query}, "plan: $query");
}

# Writes, some into chunks that are not there yet.
my @writes = (
	q{INSERT INTO {t} SELECT at + interval '40 days', device, v, note FROM {t} WHERE v > 500},
	q{INSERT INTO {t} SELECT at, device, v + 1, note || '!' FROM {t} WHERE device = 4 ON CONFLICT DO NOTHING},
	q{INSERT INTO {t} SELECT at, device, 0, note FROM {t} WHERE device = 8 ON CONFLICT (note, at) DO UPDATE SET v = {t}.v + 2000},
	'UPDATE {t} SET v = -v WHERE device = 6',
	q{DELETE FROM {t} WHERE v BETWEEN 100 AND 120});
push @writes, q{INSERT INTO {t} SELECT at, device, 0, note FROM {t} WHERE device = 5 ON CONFLICT (device, at) DO UPDATE SET v = {t}.v + 1000} if $has_constraints;
for my $write (@writes)
{
	for my $table (sort keys %method) { $node->safe_psql('postgres', $write =~ s/\{t\}/$table/gr); }
}
my ($status, $out, $err) = $node->psql('postgres', 'INSERT INTO ft SELECT at, device, v, note FROM ft LIMIT 1');
like($err, qr/duplicate key value violates unique constraint/, 'a key is there already');
chunks_are_sound('written');
answered_alike('written');

# Chunks come and go while rows are written and read.
$node->safe_psql('postgres', 'CREATE SEQUENCE minute');
my $load = start_load($node, 3, 300,
	q{INSERT INTO ft SELECT timestamptz '2026-06-01 00:00+00' + n * interval '10 min', n % 20, n % 1000, 'more ' || n FROM (SELECT nextval('minute') n FROM generate_series(1, 20)) s;} => 4,
	"\\set d random(0, 19)\nUPDATE ft SET v = v + 1 WHERE device = :d AND at > '2026-06-01' AND v = :d;\n" => 1,
	"\\set d random(0, 19)\nSELECT * FROM ft WHERE device = :d ORDER BY at DESC LIMIT 10;\nSELECT count(*) FROM ft WHERE v = :d;\n" => 1, rate => 60);
my $dropped = 0;
for my $round (1 .. 10)
{
	my $minute = $node->safe_psql('postgres', 'SELECT last_value FROM minute');
	$node->poll_query_until('postgres', "SELECT last_value > $minute + 300 FROM minute") or die 'nothing is written';
	$dropped += $node->safe_psql('postgres', q{SELECT count(*) FROM drop_chunks('ft', timestamptz '2026-06-01' + (SELECT last_value - 500 FROM minute) * interval '10 min', newer_than => timestamptz '2026-05-01')});
	$node->safe_psql('postgres', 'REINDEX TABLE ft') if $round == 5;
}
$load->signal('TERM');
$load->finish;
cmp_ok($dropped, '>=', 5, "chunks were dropped: $dropped");
unlike(slurp_file($node->basedir . '/pgbench.log.err'), qr/ERROR/, 'nobody was told of it');
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'}) or die 'not stopped';
chunks_are_sound('after the load');
kill_all($node);
$node->start;
chunks_are_sound('recovered');
$node->safe_psql('postgres', q{SELECT drop_chunks('ft', newer_than => timestamptz '2026-05-01')});
answered_alike('recovered');
$node->safe_psql('postgres', q{CLUSTER ft USING ft_at_idx});
chunks_are_sound('clustered');
answered_alike('clustered');

# Where the setting is another than the constraint's method, chunks have an index of the other method, in which rows are as
# unique; but ON CONFLICT does not find it.
if ($has_constraints)
{
	for my $setting ('on', 'off')
	{
		my $method = $setting eq 'on' ? 'btree' : 'fpbtree';
		$node->safe_psql('postgres', "SET fpbtree.constraints = $setting; CREATE TABLE $method (at timestamptz, v int, PRIMARY KEY (at) WITH (method = $method)); SELECT create_hypertable('$method', by_range('at'), create_default_indexes => false); INSERT INTO $method VALUES ('2026-01-01', 1)");
		($status, $out, $err) = $node->psql('postgres', "INSERT INTO $method VALUES ('2026-01-01', 1)");
		like($err, qr/duplicate key value violates unique constraint/, "setting $setting, a key of $method: a row is unique");
		($status, $out, $err) = $node->psql('postgres', "INSERT INTO $method VALUES ('2026-01-01', 1) ON CONFLICT (at) DO UPDATE SET v = 2");
		like($err, qr/could not find arbiter index for hypertable index/, "setting $setting, a key of $method: ON CONFLICT finds no index");
	}
}

# What is not in the Apache edition.
my %more = (
	'a retention policy' => q{SELECT add_retention_policy('ft', interval '1 day')},
	'compression' => q{ALTER TABLE ft SET (timescaledb.compress, timescaledb.compress_segmentby = 'device')});
for my $what (sort keys %more)
{
	($status, $out, $err) = $node->psql('postgres', $more{$what});
	if ($status) { like($err, qr/not supported under the current "apache" license/, "$what is not in this edition"); next }
	pass("$what is in this edition");
	next if $what ne 'compression';
	$node->safe_psql('postgres', q{SELECT compress_chunk(c) FROM show_chunks('ft') c});
	answered_alike('compressed');
	$node->safe_psql('postgres', q{SELECT decompress_chunk(c) FROM show_chunks('ft') c});
	chunks_are_sound('decompressed');
	answered_alike('decompressed');
}
server_is_clean($node, 'primary');
$node->stop;
done_testing();
