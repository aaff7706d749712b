# fpbtree-migrate, the script: indexes of a live database there and back, failures, interruptions, and what they leave.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $rows = 10_000;
my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\njit = off\n");
$node->start;
$node->safe_psql('postgres', <<"SQL");
CREATE EXTENSION fpbtree;
CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE, customer int, at timestamptz, note text, state text COLLATE "C");
INSERT INTO orders SELECT i, i % 100, timestamptz '2026-01-01' + i * interval '1 minute', md5(i::text), left(md5(i::text), 1) FROM generate_series(1, $rows) i;
CREATE INDEX orders_customer ON orders (customer);
CREATE INDEX orders_at ON orders (at DESC NULLS LAST, customer) WITH (fillfactor = 70);
CREATE INDEX "Orders' ""Note"" USING btree (x" ON orders (note);
CREATE INDEX orders_state ON orders (state, id) INCLUDE (at) WHERE customer < 50;
CREATE INDEX orders_day ON orders ((extract(doy FROM at AT TIME ZONE 'UTC')), customer);
CREATE INDEX orders_lower ON orders (lower(note) text_pattern_ops);
CREATE UNIQUE INDEX orders_unique ON orders (id, state);
CREATE INDEX orders_hash ON orders USING hash (customer);
COMMENT ON INDEX orders_customer IS 'a comment';
ALTER TABLE orders CLUSTER ON orders_at;
CREATE SCHEMA "Other ""one";
CREATE TABLE "Other ""one".events (id int, kind text, value numeric);
INSERT INTO "Other ""one".events SELECT i, 'kind ' || i % 10, i / 7.0 FROM generate_series(1, $rows) i;
CREATE INDEX events_id ON "Other ""one".events (id);
CREATE INDEX events_kind ON "Other ""one".events (kind, value DESC);
CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (5000);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT PARTITION BY HASH (id);
CREATE TABLE parts_2a PARTITION OF parts_2 FOR VALUES WITH (modulus 2, remainder 0);
CREATE TABLE parts_2b PARTITION OF parts_2 FOR VALUES WITH (modulus 2, remainder 1);
INSERT INTO parts SELECT i, 'part ' || i % 100 FROM generate_series(1, $rows) i;
CREATE INDEX parts_id ON parts (id);
CREATE INDEX parts_v ON parts (v, id);
SQL
my @connection = ('-h', $node->host, '-p', $node->port, '-d', 'postgres');

# What is known of the indexes, but for their method.
my $known = q{
	SELECT c.oid::regclass, regexp_replace(pg_get_indexdef(c.oid), '(ON (ONLY )?[^ ]+|ON "Other ""one".events) USING f?p?btree', '\1'), obj_description(c.oid, 'pg_class'), indisclustered, indisvalid, inhparent::regclass
	FROM pg_index JOIN pg_class c ON c.oid = indexrelid LEFT JOIN pg_inherits ON inhrelid = c.oid
	WHERE c.oid >= 16384 AND c.relnamespace <> 'pg_toast'::regnamespace ORDER BY c.oid::regclass::text};
my $before = $node->safe_psql('postgres', $known);
my $methods = q{SELECT string_agg(format('%s %s', n, amname), ', ' ORDER BY amname) FROM (SELECT amname, count(*) AS n
	FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE c.oid >= 16384 AND c.relnamespace <> 'pg_toast'::regnamespace GROUP BY amname) m};

# Runs the script with arguments; what it prints, with its status before it.
sub migrate
{
	my @arguments = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'fpbtree-migrate', @connection, @arguments ], '<', \undef, '>', \$out, '2>', \$err);
	return ($? >> 8) . "\n$out$err";
}

sub leaves_nothing
{
	my ($name) = @_;
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname ~ '^fpbtree_migration_'}), '0', "$name: nothing is left over");
	return;
}

# Waits until somebody waits in a statement like that.
sub await
{
	my ($statement, $name) = @_;
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '$statement%' AND wait_event_type = 'Lock')"), $name);
	return;
}

# What it understands.
like(migrate('--help'), qr/\A0\n.*--dry-run/s, 'help');
like(migrate('--nonesuch'), qr/\A2\n.*--nonesuch/s, 'an unknown option');
like(migrate('--to', 'hash'), qr/\A2\n.*btree/s, 'an unknown method');
like(migrate('--to'), qr/\A2\n/, 'no value');
like(migrate('--table', 'orders', 'orders_at'), qr/\A2\n/, 'a table and an index');
like(migrate('--table', 'nonesuch'), qr/\A1\n.*"nonesuch" does not exist/s, 'an unknown table');
like(migrate('nonesuch'), qr/\A1\n.*^nonesuch +failed: relation "nonesuch" does not exist$/ms, 'an unknown index');
like(migrate('-d', 'nonesuch'), qr/\A1\n.*"nonesuch" does not exist/s, 'an unknown database');
like(migrate('-d', 'template1', 'pg_class_oid_index'), qr/\A1\n.*extension "fpbtree" does not exist/s, 'a database without the extension');
like(migrate('orders_pkey'), qr/\A1\n.*^public\.orders_pkey +not moved: .* constraint orders_pkey\b/ms, 'named, but a constraint\'s');

# A dry run prints statements that psql can run, and runs none.
my $dry = migrate('--dry-run', '--unique');
is($node->safe_psql('postgres', $known), $before, 'a dry run changes nothing');
leaves_nothing('a dry run');
like($dry, qr/\A0\n/, 'a dry run succeeds');
like($dry, qr/^-- to move: 11, fpbtree already: 0, not moved: 1, failed: 0$/m, 'a dry run counts');
my $script = $node->basedir . '/dry.sql';
append_to_file($script, migrate('--dry-run', 'orders_lower') =~ s/\A0\n//r);
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @connection, '-f', $script ], 'its statements can be run');
is($node->safe_psql('postgres', $methods), '19 btree, 1 fpbtree, 1 hash', 'they move an index');
like(migrate('--to', 'btree', 'orders_lower'), qr/\A0\n/, 'it moves back');
is($node->safe_psql('postgres', $known), $before, 'it is as before');

# All of it, there and back, while others write.
my $writes = <<"SQL";
\\set id random(1, $rows)
UPDATE orders SET customer = customer + 1, note = md5(note) WHERE id = :id;
DELETE FROM "Other ""one".events WHERE id = :id + 1;
INSERT INTO "Other ""one".events VALUES (:id + 1, 'new', :id / 3.0);
UPDATE parts SET id = random() * $rows WHERE id = :id;
SQL
for my $method ('fpbtree', 'btree')
{
	my $load = start_load($node, 2, 8, $writes => 1, rate => 60);
	my $told = migrate('--to', $method, '--unique');
	ok($load->finish, "to $method: others write meanwhile") or diag(slurp_file($node->basedir . '/pgbench.log.err'));
	like($told, qr/\A0\n/, "to $method: succeeds") or diag($told);
	# The primary key's is of btree whatever happens.
	like($told, $method eq 'btree' ? qr/^moved: 11, btree already: 1, not moved: 0, failed: 0$/m : qr/^moved: 11, fpbtree already: 0, not moved: 1, failed: 0$/m, "to $method: the totals");
	like($told, qr/^total +\d+ \w+ +\d+ \w+ +\d+\.\d\d +\d+ s$/m, "to $method: the total sizes");
	for my $name ('public.orders_customer', 'public."Orders\' ""Note"" USING btree (x"', 'public.parts_id', '"Other ""one".events_kind')
	{
		like($told, qr/^\Q$name\E +[1-9]\d+ kB +[1-9]\d+ kB +\d+\.\d\d +\d+\.\d s$/m, "to $method: the sizes of $name");
	}
	like($told, qr/^public\.orders_customer .* 0\.\d\d /m, 'it is smaller') if $method eq 'fpbtree';
	leaves_nothing("to $method");
	is($node->safe_psql('postgres', $known), $before, "to $method: all else is as before");
	is($node->safe_psql('postgres', $methods), $method eq 'btree' ? '20 btree, 1 hash' : '1 btree, 19 fpbtree, 1 hash', "to $method: all of them");
	if ($method eq 'fpbtree')
	{
		my $ours = q{SELECT i.indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = relam WHERE amname = 'fpbtree' AND relkind = 'i' ORDER BY 1};
		is_sound($node, 'moved', map { s/'/''/gr } split /\n/, $node->safe_psql('postgres', $ours));
	}
	answers_alike($node, "to $method", 'SELECT id FROM orders WHERE customer BETWEEN 5 AND 9', 'SELECT id FROM orders WHERE note < \'1\'', 'SELECT id FROM orders WHERE at > \'2026-01-07\' ORDER BY at DESC NULLS LAST, customer',
		'SELECT id FROM orders WHERE state = \'a\' AND customer < 50', 'SELECT kind FROM "Other ""one".events WHERE id < 700', 'SELECT id FROM parts WHERE id BETWEEN 4900 AND 5100', 'SELECT id FROM parts WHERE v = \'part 7\'');
	like(migrate('--to', $method, '--unique'), qr/\A0\n.*^public\.orders_customer +is $method already\n.*^moved: 0, /ms, "to $method: once more there is nothing to do");
}

# Unique indexes go by themselves only where nothing is lost; what is left over of one goes.
my $modern = $node->pg_version->major >= 18;
$node->safe_psql('postgres', q{SELECT s FROM fpbtree_migration('orders_unique') s LIMIT 1 \gexec}) if !$modern;
my $told = migrate('--table', 'orders');
like($told, $modern ? qr/^public\.orders_unique +\d/m : qr/^public\.orders_unique +not moved: INSERT \.\.\. ON CONFLICT/m, 'a unique index that nobody has named');
leaves_nothing('a unique index that nobody has named');
like(migrate('orders_unique'), $modern ? qr/is fpbtree already/ : qr/\A0\n.*^moved: 1, /ms, 'one that was named');
like($told, qr/\A0\n(?!.*(events|parts))/s, 'nothing but the table\'s');
like(migrate('--schema', '"Other ""one"'), qr/\A0\n(?!.*(orders|parts)).*^moved: 2, /ms, 'a schema\'s');
like(migrate('--to', 'btree'), qr/\A0\n.*^moved: 9, btree already: 3, /ms, 'and back');
is($node->safe_psql('postgres', $known), $before, 'as before');

# Failures of one do not keep the others. A key that fpbtree does not take:
$node->safe_psql('postgres', q{CREATE TABLE long (id int, v text COLLATE "C"); INSERT INTO long SELECT 1, string_agg(md5(i::text), '') FROM generate_series(1, 70) i; CREATE INDEX long_a ON long (v); CREATE INDEX long_b ON long (id)});
$told = migrate('--table', 'long');
like($told, qr/\A1\n.*^public\.long_a +failed: index row size .*^public\.long_b +\d.*^moved: 1, fpbtree already: 0, not moved: 0, failed: 1$/ms, 'a key that is too long') or diag($told);
leaves_nothing('a key that is too long');
is($node->safe_psql('postgres', q{SELECT string_agg(pg_get_indexdef(indexrelid), '; ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'long'::regclass AND indisvalid}),
	'CREATE INDEX long_a ON public.long USING btree (v); CREATE INDEX long_b ON public.long USING fpbtree (id)', 'the other index is moved');
$node->safe_psql('postgres', 'DROP TABLE long');

# A lock that is not had for the exchange of names: it is waited for, but not for long.
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('BEGIN; ALTER INDEX orders_customer SET (fillfactor = 90)');
$told = migrate('orders_customer', 'orders_at');
like($told, qr/\A1\n.*^public\.orders_customer +failed: canceling statement due to lock timeout\n.*^public\.orders_at +\d.*^moved: 1, .* failed: 1$/ms, 'an index that is locked') or diag($told);
$session->query_safe('ROLLBACK');
leaves_nothing('an index that is locked');
# One that is not had for the build, because of the session's lock_timeout, is not had for cleaning up either.
{
	local $ENV{PGOPTIONS} = '-c lock_timeout=300ms';
	$session->query_safe('BEGIN; UPDATE orders SET note = note WHERE id = 1');
	$told = migrate('orders_customer');
	like($told, qr/\A1\n.*^public\.orders_customer +failed: canceling statement due to lock timeout$/ms, 'a table that is locked') or diag($told);
	is($node->safe_psql('postgres', q{SELECT count(*), bool_or(indisvalid) FROM pg_index WHERE indexrelid::regclass::text ~ '^fpbtree_migration_'}), '1|f', 'an invalid index is left over');
	$session->query_safe('ROLLBACK');
}
like(migrate('orders_customer'), qr/\A0\n.*^moved: 1, /ms, 'the next run cleans up');
leaves_nothing('the next run');

# The exchange of names waits for nobody who reads and writes the table, and nobody waits for it.
$node->safe_psql('postgres', q{CREATE TABLE step (n serial, s text); INSERT INTO step (s) SELECT fpbtree_migration('orders_customer', 'btree')});
$node->safe_psql('postgres', 'SELECT s FROM step WHERE n = 1 \gexec');
$session->query_safe('BEGIN; SET LOCAL enable_seqscan = off; UPDATE orders SET note = note WHERE customer = 7');
my $other = $node->background_psql('postgres', on_error_stop => 0);
$other->query_safe(q{SET lock_timeout = '300ms'});
$other->query_safe('BEGIN');
$other->query_safe('SELECT s FROM step WHERE n = 2 \gexec');
like($node->safe_psql('postgres', q{SET lock_timeout = '300ms'; UPDATE orders SET note = note WHERE customer = 8; SELECT 'done'}), qr/done/, 'writers do not wait for the exchange of names');
$other->query_safe('COMMIT');
$other->quit;
$session->query_safe('ROLLBACK');
is($node->safe_psql('postgres', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname = 'orders_customer'}), 'btree', 'it has not waited for them');
$node->safe_psql('postgres', 'SELECT s FROM step WHERE n > 2 ORDER BY n \gexec');
$node->safe_psql('postgres', 'DROP TABLE step');
leaves_nothing('step by step');

# All is done but the last statement.
like(migrate('--to', 'btree', 'orders_customer', 'orders_at'), qr/\A0\n/, 'and back');
$node->safe_psql('postgres', q{SELECT s FROM fpbtree_migration('orders_customer') s WHERE s !~ '^DROP' \gexec});
like(migrate('--table', 'orders'), qr/\A0\n(?!.*fpbtree_migration_).*^public\.orders_customer +is fpbtree already; what an earlier run has left is dropped$/ms, 'an old index that was left over');
leaves_nothing('an old index that was left over');
like(migrate('--to', 'btree', '--unique'), qr/\A0\n/, 'and back');
is($node->safe_psql('postgres', $known), $before, 'as before');

# Interrupted while it builds: what is left is an invalid index, and the server does not go on.
for my $signal ('INT', 'TERM')
{
	$session->query_safe('BEGIN; UPDATE orders SET note = note WHERE id = 1');
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'fpbtree-migrate', @connection, 'orders_customer', 'orders_at' ], '<', \undef, '>', \$out, '2>', \$err);
	await('CREATE INDEX CONCURRENTLY', "$signal: it waits");
	$run->signal($signal);
	$run->finish;
	is($run->full_result >> 8, $signal eq 'INT' ? 130 : 143, "$signal: its status");
	like($err, qr/run it again/, "$signal: it says what to do");
	ok($node->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND state = 'active')}), "$signal: the server has stopped");
	is($node->safe_psql('postgres', q{SELECT count(*), bool_or(indisvalid) FROM pg_index WHERE indexrelid::regclass::text ~ '^fpbtree_migration_'}), '1|f', "$signal: an invalid index is left over");
	is($node->safe_psql('postgres', q{SELECT indisvalid, amname FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE relname = 'orders_customer'}), 't|btree', "$signal: the old index is there");
	$session->query_safe('ROLLBACK');
	like(migrate('--table', 'orders'), qr/\A0\n.*^public\.orders_customer +\d/ms, "$signal: the next run moves it");
	leaves_nothing("$signal: the next run");
	like(migrate('--to', 'btree', '--unique'), qr/\A0\n/, "$signal: and back");
	is($node->safe_psql('postgres', $known), $before, "$signal: as before");
}

# Killed, with its psql and without, and its session in the server killed.
for my $victim ('both', 'script', 'session')
{
	$session->query_safe('BEGIN; UPDATE orders SET note = note WHERE id = 1');
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ 'fpbtree-migrate', @connection, 'orders_customer' ], '<', \undef, '>', \$out, '2>', \$err);
	await('CREATE INDEX CONCURRENTLY', "killed, $victim: it waits");
	my ($pid) = map { $_->{PID} } @{ $run->{KIDS} };
	my @children = grep { (FpbtreeTest::status_of($_))[1] == $pid } map { m{/proc/(\d+)$} } glob '/proc/[0-9]*';
	kill 'KILL', $pid if $victim ne 'session';
	kill 'KILL', @children if $victim eq 'both';
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%'}) if $victim eq 'session';
	if ($victim eq 'session')
	{
		$run->finish;
		like($out, qr/^orders_customer +failed: terminating connection/m, 'killed, session: it says so');
	}
	# Without a psql the server stops by itself; a psql alone goes on once it can.
	$session->query_safe('ROLLBACK') if $victim eq 'script';
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND query LIKE '%INDEX CONCURRENTLY%' AND pid <> pg_backend_pid()}), "killed, $victim: nobody goes on");
	$session->query_safe('ROLLBACK') if $victim ne 'script';
	is($node->safe_psql('postgres', q{SELECT indisvalid FROM pg_index WHERE indexrelid = 'orders_customer'::regclass}), 't', "killed, $victim: the index is there");
	like(migrate('orders_customer'), qr/\A0\n.*^public\.orders_customer +(\d|is fpbtree already)/ms, "killed, $victim: the next run");
	leaves_nothing("killed, $victim");
	like(migrate('--to', 'btree', 'orders_customer'), qr/\A0\n/, "killed, $victim: and back");
	is($node->safe_psql('postgres', $known), $before, "killed, $victim: as before");
}

# Partitions are left over, too.
$session->query_safe(q{BEGIN; UPDATE parts_2b SET v = v});
{
	local $ENV{PGOPTIONS} = '-c lock_timeout=300ms';
	like(migrate('parts_id'), qr/\A1\n.*^public\.parts_id +failed: canceling statement/ms, 'a partition that is locked');
}
is($node->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE NOT indisvalid) FROM pg_index WHERE indexrelid::regclass::text ~ '^fpbtree_migration_'}), '1|1', 'its index is left over, and no other');
$session->query_safe('ROLLBACK');
like(migrate('parts_id'), qr/\A0\n.*^moved: 1, /ms, 'the next run moves it');
leaves_nothing('partitions');
# A reader of the table keeps the old partitions from being dropped.
$session->query_safe(q{BEGIN; DECLARE c CURSOR FOR SELECT FROM parts});
{
	local $ENV{PGOPTIONS} = '-c lock_timeout=300ms';
	$told = migrate('--to', 'btree', 'parts_id');
}
$session->query_safe('ROLLBACK');
like($told, qr/\A1\n.*^public\.parts_id +(failed|is btree, but the old one could not be dropped): canceling statement/ms, 'a partitioned table that is read');
like(migrate('--to', 'btree', 'parts_id'), qr/\A0\n/, 'the next run');
leaves_nothing('a partitioned table that is read');
is($node->safe_psql('postgres', $known), $before, 'as before');

# Another session's temporary index is its own matter.
$session->query_safe('CREATE TEMP TABLE mine (v int); CREATE INDEX mine_v ON mine (v)');
my ($status, $out, $err) = $node->psql('postgres', q{\set VERBOSITY sqlstate
SELECT fpbtree_migration((SELECT oid FROM pg_class WHERE relname = 'mine_v'))});
like($err, qr/0A000/, 'a temporary index of another session');
unlike(migrate('--dry-run'), qr/mine_v/, 'nor does the script look at it');
$session->quit;
server_is_clean($node, 'migrate');
$node->stop;
done_testing();
