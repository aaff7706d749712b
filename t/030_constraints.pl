# Constraints on fpbtree indexes, beyond one session: the library that is not loaded, dumps, pg_upgrade, standbys, logical
# replication, the script that moves their indexes, crashes, and a file that is not what the catalog says.
use strict;
use warnings;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $node = PostgreSQL::Test::Cluster->new('primary');
plan skip_all => 'constraints cannot have fpbtree indexes before PostgreSQL 18' if $node->pg_version->major < 18;
$node->init(allows_streaming => 'logical', extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\njit = off\n");
$node->start;

sub refused
{
	my ($statement) = @_;
	my ($status, $out, $err) = $node->psql('postgres', $statement);
	return $status ? $err : 'done';
}

# Nobody knows the method before there is an extension; and in a session that has not loaded the library, it is no more than a
# parameter that btree does not have.
like(refused('CREATE TABLE t (id int PRIMARY KEY WITH (method = fpbtree))'), qr/unrecognized parameter "method"/, 'nothing is known of it');
like(refused(q{LOAD 'fpbtree'; CREATE TABLE t (id int PRIMARY KEY WITH (method = fpbtree))}), qr/access method "fpbtree" does not exist.*\n.*CREATE EXTENSION fpbtree/, 'there is no such method');
is(refused(q{LOAD 'fpbtree'; SET fpbtree.constraints = on; CREATE TABLE t (id int PRIMARY KEY); DROP TABLE t}), 'done', 'without the extension the default is btree');
$node->safe_psql('postgres', 'CREATE EXTENSION fpbtree');
like(refused('CREATE TABLE t (id int PRIMARY KEY WITH (method = fpbtree))'), qr/unrecognized parameter "method"/, 'the library is not loaded');
$node->append_conf('postgresql.conf', "session_preload_libraries = 'fpbtree'\n");
$node->reload;
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE customers (id int PRIMARY KEY WITH (method = fpbtree, fillfactor = 80), email text NOT NULL UNIQUE WITH (method = fpbtree), plain int UNIQUE, CONSTRAINT later UNIQUE (plain, id) WITH (method = fpbtree) DEFERRABLE);
INSERT INTO customers SELECT i, 'customer' || i || '@example.org', i FROM generate_series(1, 5000) i;
COMMENT ON INDEX customers_pkey IS 'of the index';
CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int REFERENCES customers, email text REFERENCES customers (email) ON UPDATE CASCADE);
INSERT INTO orders (customer, email) SELECT i % 5000 + 1, 'customer' || i % 5000 + 1 || '@example.org' FROM generate_series(1, 5000) i;
CREATE UNIQUE INDEX orders_email ON orders USING fpbtree (email, id);
ALTER TABLE orders ADD UNIQUE USING INDEX orders_email;
CREATE TABLE parts (id int, k text, PRIMARY KEY (k, id) WITH (method = fpbtree)) PARTITION BY LIST (k);
CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a');
CREATE TABLE parts_b (k text NOT NULL, id int NOT NULL);
ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES IN ('b');
INSERT INTO parts SELECT i, substr('ab', i % 2 + 1, 1) FROM generate_series(1, 1000) i;
SQL
my $definitions = q{SELECT i.indexrelid::regclass, amname, i.indisvalid, i.indisprimary, i.indimmediate, pg_get_indexdef(i.indexrelid), obj_description(i.indexrelid, 'pg_class'), inhparent::regclass, (SELECT string_agg(pg_get_constraintdef(oid), ', ' ORDER BY contype, conname) FROM pg_constraint WHERE conindid = i.indexrelid)
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_inherits ON inhrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace ORDER BY c.relname};
my $made = $node->safe_psql('postgres', $definitions);
is(() = ($made =~ /\|fpbtree\|/g), 7, 'indexes of fpbtree') or diag($made);
my $fpbtrees = q{SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE amname = 'fpbtree' AND relkind = 'i' ORDER BY c.relname};
my @violations = (
	q{INSERT INTO customers VALUES (7, 'x', -1)}, q{INSERT INTO customers VALUES (-1, 'customer7@example.org', -1)}, 'DELETE FROM customers WHERE id = 7',
	'INSERT INTO orders (customer) VALUES (77777)', q{INSERT INTO parts VALUES (7, 'b')});

# Whether a database has what was made, and it does what it is for.
sub is_same
{
	my ($where, $database, $name, %more) = @_;
	is($where->safe_psql($database, $definitions), $more{definitions} // $made, "$name: the same indexes");
	# A standby's indexes are looked at once it is promoted.
	for my $index ($more{read_only} ? () : split /\n/, $where->safe_psql($database, $fpbtrees))
	{
		is($where->safe_psql($database, "SELECT count(*) FROM fpbtree_check('$index', true)"), '0', "$name: $index is sound");
	}
	is($where->safe_psql($database, q{SELECT (SELECT plain FROM customers WHERE id = 77), (SELECT id FROM customers WHERE email = 'customer78@example.org'), (SELECT count(*) FROM orders JOIN customers ON customers.id = customer), (SELECT count(*) FROM parts WHERE k = 'a' AND id < 100)}),
		'77|78|5000|49', "$name: answers");
	return if $more{read_only};
	for my $violation (@violations)
	{
		my ($status, $out, $err) = $where->psql($database, $violation);
		like($err, qr/violates (unique|foreign key) constraint/, "$name: $violation");
	}
	is($where->safe_psql($database, q{BEGIN; INSERT INTO customers VALUES (7, 'x', -1) ON CONFLICT (id) DO UPDATE SET plain = -7 RETURNING email, plain; ROLLBACK}), 'customer7@example.org|-7', "$name: ON CONFLICT");
	return;
}
is_same($node, 'postgres', 'as made');

# Dumps: as text, and restored by several sessions, each of which has to have the library.
my @connection = ('-h', $node->host, '-p', $node->port);
my $directory = PostgreSQL::Test::Utils::tempdir . '/dump';
my $text = PostgreSQL::Test::Utils::tempdir . '/dump.sql';
command_ok([ 'pg_dump', @connection, '-f', $text, 'postgres' ], 'pg_dump');
like(slurp_file($text), qr/ADD CONSTRAINT customers_pkey PRIMARY KEY \(id\) WITH \(method=fpbtree, fillfactor='80'\);/, 'a dump says it');
command_ok([ 'pg_dump', @connection, '-F', 'directory', '-j', '2', '-f', $directory, 'postgres' ], 'pg_dump into a directory');
$node->safe_psql('postgres', "CREATE DATABASE $_") for 'text', 'jobs', 'unloaded', 'one_session';
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', @connection, '-f', $text, '-o', '/dev/null', 'text' ], 'restored from text');
is_same($node, 'text', 'restored from text');
command_ok([ 'pg_restore', @connection, '-j', '2', '-d', 'jobs', $directory ], 'restored with two jobs');
is_same($node, 'jobs', 'restored with two jobs');
$node->append_conf('postgresql.conf', "session_preload_libraries = ''\n");
$node->reload;
command_fails_like([ 'pg_restore', @connection, '-j', '2', '-d', 'unloaded', $directory ], qr/unrecognized parameter "method"/, 'jobs that do not load the library');
# One session loads it with CREATE EXTENSION.
command_ok([ 'psql', '-X', '-v', 'ON_ERROR_STOP=1', '-q', @connection, '-f', $text, '-o', '/dev/null', 'one_session' ], 'restored by one session');
is($node->safe_psql('one_session', $definitions), $made, 'restored by one session: the same indexes');
$node->append_conf('postgresql.conf', "session_preload_libraries = 'fpbtree'\n");
$node->reload;

# A standby, and logical replication: the primary key tells which row is meant.
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(extra => [ '--encoding', 'UTF8' ]);
$subscriber->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\nsession_preload_libraries = 'fpbtree'\n");
$subscriber->start;
$subscriber->safe_psql('postgres', 'CREATE EXTENSION fpbtree; CREATE TABLE customers (id int PRIMARY KEY WITH (method = fpbtree), email text, plain int)');
$node->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE customers');
$subscriber->safe_psql('postgres', q{CREATE SUBSCRIPTION s CONNECTION '} . $node->connstr . q{ dbname=postgres' PUBLICATION p});
$subscriber->wait_for_subscription_sync($node, 's');
my $scans = 'SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = \'customers_pkey\'';
my $changes = q{BEGIN; INSERT INTO customers SELECT i, 'new' || i, i FROM generate_series(5001, 5100) i; UPDATE customers SET plain = -plain WHERE id > 5050; DELETE FROM customers WHERE id BETWEEN 5090 AND 5100; COMMIT};
$node->safe_psql('postgres', $changes);
$node->wait_for_catchup('s');
my $rows = 'SELECT count(*), sum(hashtextextended(customers::text, 0)) FROM customers';
is($subscriber->safe_psql('postgres', $rows), $node->safe_psql('postgres', $rows), 'a subscriber has the same rows');
ok($subscriber->poll_query_until('postgres', "SELECT ($scans) >= 61"), 'found by the key');
# The type changes in one transaction with its index, which the standby sees afterwards.
$node->safe_psql('postgres', 'DELETE FROM customers WHERE id > 5000; ALTER TABLE customers ALTER id TYPE bigint; ALTER TABLE parts_a ADD UNIQUE (id) WITH (method = fpbtree)');
$made = $node->safe_psql('postgres', $definitions);
is(() = ($made =~ /\|fpbtree\|t\|/g), 8, 'of another type: indexes of fpbtree') or diag($made);
is_same($node, 'postgres', 'of another type');
$node->wait_for_catchup($standby);
is_same($standby, 'postgres', 'standby', read_only => 1);
$standby->promote;
is_same($standby, 'postgres', 'promoted');
$standby->stop;
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$subscriber->stop;

# The script that moves indexes takes constraints along, while rows are written; back and there.
my $load = start_load($node, 2, 60,
	"\\set id random(1, 5000)\nINSERT INTO customers VALUES (:id, 'none', 0) ON CONFLICT (id) DO UPDATE SET plain = customers.plain;\nINSERT INTO orders (customer, email) SELECT id, email FROM customers WHERE id = :id;\n" => 1, rate => 100);
for my $method ('btree', 'fpbtree')
{
	my ($out, $err) = ('', '');
	IPC::Run::run([ 'fpbtree-migrate', @connection, '-d', 'postgres', '--to', $method, 'customers_pkey', 'customers_email_key', 'orders_email' ], '<', \undef, '>', \$out, '2>', \$err);
	like($out, qr/^moved: 3, .* failed: 0$/m, "moved to $method under load") or diag("$out$err");
	is($node->safe_psql('postgres', q{SELECT string_agg(amname, ',' ORDER BY relname) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE relname IN ('customers_pkey', 'customers_email_key', 'orders_email')}),
		join(',', ($method) x 3), "$method, all three");
}
$load->signal('INT');
$load->finish;
my $errors = slurp_file($node->basedir . '/pgbench.log.err');
unlike($errors, qr/ERROR/, 'nobody was told of it');
is(() = ($node->safe_psql('postgres', $definitions) =~ /orders_email|customers/g), () = ($made =~ /orders_email|customers/g), 'as many indexes as before');
$node->safe_psql('postgres', q{DELETE FROM orders WHERE id > 5000});
$made = $node->safe_psql('postgres', $definitions);
is_same($node, 'postgres', 'moved there and back');

# A crash in the middle: all of it, or nothing.
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; ALTER TABLE customers ALTER id TYPE int; CREATE UNIQUE INDEX another ON customers (email); SELECT fpbtree_exchange(\'customers_email_key\', \'another\'); CHECKPOINT');
kill_all($node);
eval { $session->quit };
$node->start;
is_same($node, 'postgres', 'after a crash');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname ~ '(another|_(new|old)$)'}), '0', 'nothing is left over');

# pg_upgrade, to a server where constraints are of fpbtree by default: what was btree stays btree.
$node->safe_psql('postgres', 'DROP PUBLICATION p; DROP DATABASE unloaded');
$node->stop;
my $upgraded = PostgreSQL::Test::Cluster->new('upgraded');
$upgraded->init(extra => [ '--encoding', 'UTF8' ]);
$upgraded->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\nsession_preload_libraries = 'fpbtree'\nfpbtree.constraints = on\n");
my $bindir = $node->config_data('--bindir');
chdir PostgreSQL::Test::Utils::tempdir;
command_ok([ 'pg_upgrade', '--no-sync', '-d', $node->data_dir, '-D', $upgraded->data_dir, '-b', $bindir, '-B', $bindir, '-s', $node->host, '-p', $node->port, '-P', $upgraded->port, '--copy' ], 'pg_upgrade');
$upgraded->start;
is_same($upgraded, 'postgres', 'upgraded');
is_same($upgraded, 'text', 'upgraded, another database', definitions => $upgraded->safe_psql('jobs', $definitions));

# A file that is not what the catalog says: an error, no answer, and REINDEX mends it.
my %path = map { $_ => $upgraded->data_dir . '/' . $upgraded->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } 'customers_pkey', 'customers_plain_key';
$upgraded->stop;
copy($path{customers_pkey}, "$path{customers_pkey}.kept") or die;
copy($path{customers_plain_key}, $path{customers_pkey}) or die;
copy("$path{customers_pkey}.kept", $path{customers_plain_key}) or die;
unlink "$path{customers_pkey}.kept";
$upgraded->start;
for my $column ('id', 'plain')
{
	my ($status, $out, $err) = $upgraded->psql('postgres', "\\set VERBOSITY sqlstate\nSET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM customers WHERE $column = 77");
	like($err, qr/XX002/, "$column: the wrong file is told of");
	is($out, '', "$column: no answer");
}
$upgraded->safe_psql('postgres', 'REINDEX TABLE customers');
is_same($upgraded, 'postgres', 'mended');
$upgraded->stop;
done_testing();
