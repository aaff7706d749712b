# A partitioned table of which two partitions are here and two on another server, by postgres_fdw. Scans, aggregates and
# changes use the indexes on both sides, also by fpbtree's own plan nodes on the other one; the answers are those of a table
# made alike with btree.
# Needs: postgres_fdw
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $near = PostgreSQL::Test::Cluster->new('near');
my $far = PostgreSQL::Test::Cluster->new('far');
for my $node ($near, $far)
{
	$node->init(extra => [ '--encoding', 'UTF8' ]);
	$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\njit = off\nmax_parallel_workers_per_gather = 0\nrestart_after_crash = off\n");
}
# The other server tells in its log of the plans that it took.
$far->append_conf('postgresql.conf', "session_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0\n");
$_->start, $_->safe_psql('postgres', 'CREATE EXTENSION fpbtree') for $near, $far;
my $server = "SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '@{[ $far->host ]}', port '@{[ $far->port ]}', dbname 'postgres', use_remote_estimate 'true', async_capable 'true', batch_size '100', fetch_size '70')";
$near->safe_psql('postgres', "CREATE EXTENSION postgres_fdw; CREATE $server; CREATE USER MAPPING FOR CURRENT_USER SERVER far");

# Tables of the same rows, fp with fpbtree's indexes and bt with btree's.
my $columns = 'region int2 NOT NULL, device int2 NOT NULL, at timestamptz NOT NULL, v int, note text COLLATE "C"';
my %method = (fp => 'fpbtree', bt => 'btree');
for my $table (sort keys %method)
{
	for my $region (3, 4)
	{
		$far->safe_psql('postgres', <<"SQL");
CREATE TABLE ${table}_$region ($columns, CHECK (region = $region));
CREATE UNIQUE INDEX ON ${table}_$region USING $method{$table} (region, device, at);
CREATE INDEX ON ${table}_$region USING $method{$table} (v) INCLUDE (device);
CREATE INDEX ON ${table}_$region USING $method{$table} (note);
SQL
	}
	$near->safe_psql('postgres', <<"SQL");
CREATE TABLE $table ($columns) PARTITION BY LIST (region);
CREATE TABLE ${table}_1 PARTITION OF $table FOR VALUES IN (1);
CREATE TABLE ${table}_2 PARTITION OF $table FOR VALUES IN (2);
CREATE FOREIGN TABLE ${table}_3 PARTITION OF $table FOR VALUES IN (3) SERVER far;
CREATE FOREIGN TABLE ${table}_4 PARTITION OF $table FOR VALUES IN (4) SERVER far;
CREATE INDEX ON $table USING $method{$table} (region, device, at);
CREATE INDEX ON $table USING $method{$table} (v) INCLUDE (device);
CREATE INDEX ON $table USING $method{$table} (note);
INSERT INTO $table SELECT i % 4 + 1, i / 4 % 50, timestamptz '2026-01-01 00:00+00' + i * interval '1 min', hashint4(i) % 5000, 'note ' || md5(i::text) FROM generate_series(1, 40000) i;
SQL
	$far->safe_psql('postgres', 'VACUUM ANALYZE');
	$near->safe_psql('postgres', "VACUUM ANALYZE ${table}_1, ${table}_2; ANALYZE $table; ANALYZE ${table}_3; ANALYZE ${table}_4");
}
my ($status, $out, $err) = $near->psql('postgres', 'CREATE UNIQUE INDEX ON fp USING fpbtree (region, device, at)');
isnt($status, 0, 'no unique index over foreign partitions: ' . $err);

my $settings = 'SET enable_partitionwise_aggregate = on; SET enable_partitionwise_join = on;';

sub rows_of
{
	my ($query, $table, $prefix) = @_;
	$query =~ s/\{t\}/$table/g;
	my $rows = $near->safe_psql('postgres', $settings . ($prefix // '') . $query);
	return $query =~ /ORDER BY/ ? $rows : join "\n", sort split /\n/, $rows;
}

# Queries, with what the plan here and those of the other server have to say.
my $aggregate = qr/Custom Scan \(FpbtreeAggregate\)/;
my @queries = (
	[ 'SELECT region, device, count(*), max(at) FROM {t} GROUP BY region, device', qr/Custom Scan \(FpbtreeAggregate\).*Relations: Aggregate on \(fp_3/s, $aggregate ],
	[ 'SELECT region, count(*) FROM {t} WHERE v BETWEEN 1 AND 300 GROUP BY region', qr/Relations: Aggregate on \(fp_3/, qr/fp_3_v_device_idx/ ],
	[ 'SELECT region, min(device), max(device), count(*) FROM {t} WHERE region IN (2, 3) GROUP BY region', qr/Relations: Aggregate on \(fp_3/, $aggregate ],
	[ 'SELECT region, device FROM {t} WHERE region > 1 GROUP BY region, device', qr/Relations: Aggregate on \(fp_3/, $aggregate ],
	[ q{SELECT * FROM {t} WHERE region >= 2 AND device = 17 AND at > '2026-01-10' ORDER BY region, device, at}, qr/Scan (using|on) fp_2_region_device_at_idx/, qr/Scan (using|on) fp_4_region_device_at_idx/ ],
	[ 'SELECT region, device, at FROM {t} ORDER BY region DESC, device DESC, at DESC LIMIT 300', qr/Foreign Scan on fp_4/, qr/Index (Only )?Scan Backward using fp_4_region|FpbtreeRows/ ],
	[ 'SELECT v, device FROM {t} WHERE v BETWEEN 100 AND 400 ORDER BY v, device', qr/Foreign Scan on fp_3/, qr/fp_3_v_device_idx/ ],
	[ q{SELECT count(*), min(note) FROM {t} WHERE note LIKE 'note 5%'}, qr/Foreign/, qr/fp_[34]_note_idx/ ],
	[ 'SELECT w, count(*), sum(v) FROM (VALUES (3), (17), (2999)) x (w) JOIN {t} ON v = w GROUP BY w', qr/Nested Loop.*Foreign Scan on fp_3/s, qr/fp_3_v_device_idx/ ],
	[ 'SELECT a.region, count(*), sum(b.v) FROM {t} a JOIN {t} b USING (region, device, at) WHERE a.v < -4900 GROUP BY a.region', qr/Foreign Scan/, qr/fp_3/ ],
	[ 'SELECT DISTINCT ON (device) device, at, v FROM {t} WHERE region = 4 ORDER BY device, at DESC', qr/Foreign/, qr/fp_4/ ],
	[ 'SELECT region, device, at FROM {t}_3 ORDER BY region, device, at OFFSET 5000 LIMIT 5', qr/Foreign/, qr/Custom Scan \(FpbtreeOffset\)/ ]);
for (@queries)
{
	my ($query, $here, $there) = @$_;
	like(rows_of("$query /* ORDER BY */", 'fp', 'EXPLAIN (COSTS OFF)'), $here, "the plan here: $query");
	my $so_far = -s $far->logfile;
	my $got = rows_of($query, 'fp');
	isnt($got, '', "something to compare: $query");
	is($got, rows_of($query, 'bt'), "as by btree: $query");
	is(rows_of($query, 'fp', 'SET enable_indexscan = off; SET enable_bitmapscan = off;'), $got, "as by sequential scans here: $query");
	like(substr(slurp_file($far->logfile), $so_far), $there, "the plan there: $query");
}

# Changes: sent as they are, by the row, and in batches.
my @changes = (
	'UPDATE {t} SET v = v + 1 WHERE device = 7',
	q{UPDATE {t} SET v = -v WHERE note IN (SELECT note FROM {t} WHERE v BETWEEN 0 AND 50)},
	'DELETE FROM {t} WHERE v BETWEEN 1000 AND 1100',
	q{INSERT INTO {t} SELECT i % 4 + 1, 100 + i / 4 % 50, timestamptz '2027-01-01 00:00+00' + i * interval '1 min', hashint4(i) % 5000, 'more ' || i FROM generate_series(1, 8000) i},
	q{BEGIN; DELETE FROM {t} WHERE device < 30; UPDATE {t} SET device = device + 1; ROLLBACK},
	q{BEGIN; SAVEPOINT s; DELETE FROM {t} WHERE region = 3; ROLLBACK TO s; UPDATE {t} SET note = 'changed ' || v WHERE device = 8; COMMIT},
	q{WITH gone AS (DELETE FROM {t} WHERE region = 2 AND device = 9 RETURNING *) INSERT INTO {t} SELECT 3, device + 1000, at, v, note FROM gone});
for my $change (@changes)
{
	for my $table (sort keys %method) { $near->safe_psql('postgres', $change =~ s/\{t\}/$table/gr); }
}
my $all = 'SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {t} t';
is(rows_of($all, 'fp'), rows_of($all, 'bt'), 'changed alike');
my $taken = q{INSERT INTO {t} SELECT region, device, at, 0, '' FROM {t} WHERE region = 4 LIMIT 1};
($status, $out, $err) = $near->psql('postgres', $taken =~ s/\{t\}/fp/gr);
like($err, qr/duplicate key value violates unique constraint "fp_4_region_device_at_idx"/, 'what is there already is refused on the other server');

sub all_is_well
{
	my ($name) = @_;
	is(rows_of($_->[0], 'fp'), rows_of($_->[0], 'bt'), "$name: $_->[0]") for @queries;
	my $indexes = q{SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'fpbtree' AND relkind = 'i' ORDER BY 1};
	for my $node ($near, $far)
	{
		my @indexes = split /\n/, $node->safe_psql('postgres', $indexes);
		is(scalar(@indexes), 6, "$name: indexes on $node->{_name}");
		is_sound($node, "$name: $node->{_name}", @indexes);
	}
	return;
}
all_is_well('changed');

# The other server dies in a transaction, which then is nowhere.
my $session = $near->background_psql('postgres', on_error_stop => 0);
my $before = rows_of($all, 'fp');
$session->query('BEGIN; DELETE FROM fp WHERE device < 20');
kill_all($far);
$session->query('COMMIT');
$session->quit;
$far->start;
is(rows_of($all, 'fp'), $before, 'a transaction that half of its servers has lost');
all_is_well('after a crash of the other server');
server_is_clean($near, 'near');
$_->stop for $near, $far;
done_testing();
