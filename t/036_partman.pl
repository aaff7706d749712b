# pg_partman makes partitions and drops them while rows are written and read: the new ones have fpbtree's indexes, also those
# that come from a template table, and all of them are sound.
# Needs: pg_partman
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'\nautovacuum_naptime = 1s\nfsync = off\njit = off\n");
$node->start;
# Unique indexes over partitions are btree's alone before 18; those of single partitions are not.
my $key = $node->pg_version->major >= 18 ? ', PRIMARY KEY (id) WITH (method = fpbtree)' : '';
my $indexes = $key ? 5 : 4;
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION fpbtree;
CREATE SCHEMA partman;
CREATE EXTENSION pg_partman SCHEMA partman;
CREATE TABLE measured (id bigint GENERATED ALWAYS AS IDENTITY, device int, at timestamptz DEFAULT clock_timestamp(), v int, note text COLLATE "C"$key) PARTITION BY RANGE (id);
CREATE INDEX ON measured USING fpbtree (device, at DESC);
CREATE INDEX ON measured USING fpbtree (v) INCLUDE (device) WITH (fillfactor = 70);
CREATE INDEX ON measured USING fpbtree (note) WHERE v > 0;
CREATE TABLE template (LIKE measured);
CREATE UNIQUE INDEX ON template USING fpbtree (note, id);
SELECT partman.create_parent('public.measured', 'id', '1000', p_premake := 10, p_template_table := 'public.template');
UPDATE partman.part_config SET retention = '4000', retention_keep_table = false WHERE parent_table = 'public.measured';
SQL

my $partitions = q{FROM pg_inherits WHERE inhparent = 'measured'::regclass};
my %made = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', "SELECT inhrelid::regclass $partitions");
my $load = start_load($node, 3, 300,
	"\\set v random(-1000, 1000)\nINSERT INTO measured (device, v, note) SELECT i, :v + i, 'note ' || :v || ' of ' || i FROM generate_series(1, 20) i;\n" => 4,
	"\\set v random(-1000, 1000)\nUPDATE measured SET v = -v, note = note || '!' WHERE v = :v;\n" => 1,
	"\\set v random(-1000, 1000)\nDELETE FROM measured WHERE v = :v AND device < 5;\n" => 1,
	"\\set v random(1, 20)\nSELECT at FROM measured WHERE device = :v ORDER BY device, at DESC LIMIT 10;\nSELECT device, count(*) FROM measured GROUP BY device;\n" => 1,
	rate => 60);
for my $round (1 .. 20)
{
	my $last = $node->safe_psql('postgres', 'SELECT max(id) FROM measured') || 0;
	$node->poll_query_until('postgres', "SELECT max(id) > $last + 500 FROM measured") or die 'nothing is written';
	$node->safe_psql('postgres', q{SELECT partman.run_maintenance('public.measured')});
	$made{$_} = 1 for split /\n/, $node->safe_psql('postgres', "SELECT inhrelid::regclass $partitions");
}
$load->signal('TERM');
$load->finish;
unlike(slurp_file($node->basedir . '/pgbench.log.err'), qr/ERROR/, 'nobody was told of it');
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'}) or die 'not stopped';

my @left = split /\n/, $node->safe_psql('postgres', "SELECT inhrelid::regclass $partitions ORDER BY inhrelid");
cmp_ok(scalar(keys %made), '>=', 15, 'partitions were made: ' . keys %made);
cmp_ok(keys(%made) - @left, '>=', 4, 'partitions were dropped: ' . (keys(%made) - @left));
my $of = q{FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid = '%s'::regclass};
for my $partition (@left)
{
	# The default one is made without the template's indexes by some versions of pg_partman.
	my $expected = $partition eq 'measured_default' ? qr/^fpbtree \d+$/ : qr/^fpbtree $indexes$/;
	like($node->safe_psql('postgres', sprintf "SELECT amname || ' ' || count(*) $of GROUP BY amname", $partition), $expected, "indexes of $partition");
	is_sound($node, $partition, split /\n/, $node->safe_psql('postgres', sprintf "SELECT indexrelid::regclass $of", $partition));
}
answers_alike($node, 'measured',
	'SELECT device, at FROM measured WHERE device BETWEEN 3 AND 5',
	'SELECT v, device FROM measured WHERE v BETWEEN -100 AND 100',
	q{SELECT note FROM measured WHERE note LIKE 'note 1%' AND v > 0},
	'SELECT device, count(*), max(at) FROM measured GROUP BY device');
server_is_clean($node, 'primary');
$node->stop;
done_testing();
