# pgbouncer: many clients take turns at a few sessions, a transaction at a time, with prepared statements, while indexes come
# and go; then the server dies beneath it.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my ($pgbouncer) = grep { -x } map { "$_/pgbouncer" } '/usr/sbin', '/usr/bin', '/usr/local/bin';
plan skip_all => 'left out: pgbouncer is not installed' if !$pgbouncer;

my $seconds = 15;
my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'\nsynchronous_commit = off\njit = off\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE t (id bigint, v int, note text COLLATE "C");
CREATE UNIQUE INDEX t_id ON t USING fpbtree (id);
CREATE INDEX t_v ON t USING fpbtree (v) INCLUDE (id);
CREATE INDEX t_note ON t USING fpbtree (note);
CREATE SEQUENCE ids;
INSERT INTO t SELECT nextval('ids'), hashint4(i) % 1000, 'note ' || md5(i::text) FROM generate_series(1, 20000) i;
VACUUM ANALYZE t;
SQL

my $directory = PostgreSQL::Test::Utils::tempdir;
my $port = PostgreSQL::Test::Cluster::get_free_port();
append_to_file("$directory/pgbouncer.ini", <<"END");
[databases]
postgres = host=@{[ $node->host ]} port=@{[ $node->port ]} user=@{[ $node->safe_psql('postgres', 'SELECT current_user') ]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_prepared_statements = 20
logfile = $directory/pgbouncer.log
END
my $bouncer = IPC::Run::start([ $pgbouncer, "$directory/pgbouncer.ini" ], '<', '/dev/null', '>', \my $said, '2>&1');
my $through = "host=127.0.0.1 port=$port dbname=postgres";

# psql through the bouncer: (whether it went well, what it printed).
sub ask
{
	my ($query) = @_;
	my $went_well = IPC::Run::run([ 'psql', '-XqAtc', $query, $through ], '<', '/dev/null', '>', \my $out, '2>', \my $err);
	chomp $out;
	return ($went_well, $out);
}

sub wait_for_answer
{
	for my $try (1 .. 300)
	{
		my ($went_well, $out) = ask('SELECT count(*) FROM t WHERE id = 1');
		return if $went_well && $out eq '1';
		select undef, undef, undef, 0.2;
	}
	die "no answer through pgbouncer: $said" . slurp_file("$directory/pgbouncer.log");
}
wait_for_answer();

my %scripts = (
	insert => "INSERT INTO t SELECT nextval('ids'), v, 'note ' || md5(v::text) FROM generate_series(1, 3) v;\n",
	update => "\\set id random(1, 20000)\nBEGIN;\nUPDATE t SET v = v + 1 WHERE id = :id;\nSELECT v FROM t WHERE id = :id;\nEND;\n",
	look_up => "\\set v random(-999, 999)\nSELECT count(*), max(id) FROM t WHERE v = :v;\n",
	range => "\\set v random(-999, 900)\nSELECT v, count(*) FILTER (WHERE v % 2 = 0) FROM t WHERE v BETWEEN :v AND :v + 50 GROUP BY v;\n");
append_to_file("$directory/$_.sql", $scripts{$_}) for keys %scripts;
my @files = map { ('-f', "$directory/$_.sql") } sort keys %scripts;
# A thread for each client: one that prepares a statement waits, and others may have what it waits for.
my $load = IPC::Run::start([ 'pgbench', '-n', '-M', 'prepared', '-c', '12', '-j', '12', '-T', $seconds, @files, $through ], '<', '/dev/null', '>', \my $report, '2>', \my $errors);
my $until = time + $seconds - 2;
my $rounds = 0;
while (time < $until)
{
	$node->safe_psql('postgres', $_)
	  for 'REINDEX INDEX CONCURRENTLY t_v', 'CREATE INDEX t_more ON t USING fpbtree (v, note)', 'VACUUM t', 'DROP INDEX t_more', 'REINDEX INDEX t_id';
	$rounds++;
}
$load->finish;
is($errors, '', 'no client failed');
my ($done) = $report =~ /number of transactions actually processed: (\d+)/;
cmp_ok($done, '>', 1000, "$done transactions, beside $rounds rounds of indexes made anew");
my ($sessions) = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
cmp_ok($sessions, '<=', 3, 'in three sessions');
is($node->safe_psql('postgres', q{SELECT count(*) = (SELECT last_value FROM ids) FROM t}), 't', 'every row that got a number is there');
is_sound($node, 'after the load', 't_id', 't_v', 't_note');
answers_alike($node, 'after the load', 'SELECT id FROM t WHERE id BETWEEN 100 AND 900 ORDER BY id', 'SELECT v, id FROM t WHERE v BETWEEN 20 AND 40', 'SELECT v, count(*), max(id) FROM t GROUP BY v');

$node->stop('immediate');
$node->start;
wait_for_answer();
is_sound($node, 'after a crash', 't_id', 't_v', 't_note');
is((ask('SELECT count(*) FROM (SELECT DISTINCT v FROM t) s'))[1], $node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SELECT count(*) FROM (SELECT DISTINCT v FROM t) s'), 'the same through pgbouncer');
$bouncer->signal('TERM');
$bouncer->finish;
server_is_clean($node, 'primary');
$node->stop;
done_testing();
