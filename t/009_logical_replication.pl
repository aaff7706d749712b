# Logical replication: a subscriber finds the rows to change by the index that is its table's replica identity, on 18 also
# by any other where that is all columns. On 17 it does not by an index of fpbtree, and by one of btree beside it does.
# Needs: icu
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
for my $node ($publisher, $subscriber)
{
	$node->init(allows_streaming => 'logical', extra => [ '--encoding', 'UTF8' ]);
	$node->append_conf('postgresql.conf', "autovacuum = off\nrestart_after_crash = off\nwal_retrieve_retry_interval = 100ms\n");
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION fpbtree');
}
my $version = $publisher->pg_version->major;

# Identified by a unique index: the columns of it, and what makes a key of a number. Of "filtered" only the rows with a
# positive key are published.
my %identified = (
	by_int => { type => 'int4', columns => 'key', key => '%s' },
	by_text => { type => 'text COLLATE "C"', columns => 'part DESC, key', key => q{'a key of many: ' || (%s)} },
	by_icu => { type => 'text COLLATE "en-x-icu"', columns => 'key) INCLUDE (v', key => q{initcap(md5((%s)::text))} },
	filtered => { type => 'int4', columns => 'key', key => '%s' });
my @identified = sort keys %identified;
my @indexes = ('whole_key', map { "${_}_key" } @identified);

# The rows numbered from the first to the last. Some notes are NULL, some kept out of line; where rows come to be published
# by an UPDATE none is, because the server sends none with them.
sub insert_rows
{
	my ($table, $first, $last, $condition) = @_;
	my $key = sprintf $identified{$table}{key}, 'i';
	my $long = $table eq 'filtered' ? 'false' : 'i % 40 = 1';
	return "INSERT INTO $table SELECT i, $key, i % 5, i % 100, CASE WHEN $long THEN (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 200) j)"
	  . " WHEN i % 3 > 0 THEN 'note ' || i END FROM generate_series($first, $last) i WHERE " . ($condition // 'true') . ";\n";
}

# Rows and keys change, vanish and come again, in several statements of one transaction.
sub change_rows
{
	my ($table, $round) = @_;
	my $moved = sprintf $identified{$table}{key}, "id + 100000 * $round";
	my $changes = "BEGIN;\n"
	  . "UPDATE $table SET v = v + 1 WHERE id % 3 = 0;\n"
	  . "UPDATE $table SET v = NULL, note = CASE WHEN note IS NULL THEN 'none before' END WHERE id % 4 = 0;\n"
	  . "UPDATE $table SET key = $moved WHERE id % 7 = $round;\n"
	  . "DELETE FROM $table WHERE id % 11 = $round;\n"
	  . insert_rows($table, 1, 2000, "i % 77 = 11 + $round")
	  . "SAVEPOINT s;\nDELETE FROM $table;\nROLLBACK TO s;\n"
	  . "UPDATE $table SET part = part + 1 WHERE id % 13 = $round;\nCOMMIT;\n";
	# Out of what is published, and into it.
	$changes .= "UPDATE filtered SET key = -key WHERE id % 6 IN ($round, 3);\n" if $table eq 'filtered';
	return $changes;
}

# What of a table is published.
sub rows_of
{
	my ($node, $table) = @_;
	my $published = $table eq 'filtered' ? 'key > 0' : 'true';
	return $node->safe_psql('postgres', "SELECT count(*), md5(string_agg(t::text, ',' ORDER BY t::text COLLATE \"C\")) FROM $table t WHERE $published");
}

sub tables_are_alike
{
	my ($name, @tables) = @_;
	$publisher->wait_for_catchup('subscription');
	is(rows_of($subscriber, $_), rows_of($publisher, $_), "$name: $_ is alike") for @tables;
	return;
}

# Scans of an index; the worker that applies the changes tells of them a little later.
sub is_used
{
	my ($name, $index) = @_;
	ok($subscriber->poll_query_until('postgres', "SELECT idx_scan > 0 FROM pg_stat_user_indexes WHERE indexrelname = '$index'"), "$name: by $index");
	return;
}

for my $node ($publisher, $subscriber)
{
	for my $table (@identified)
	{
		my %t = %{ $identified{$table} };
		$node->safe_psql('postgres', <<"SQL");
CREATE TABLE $table (id int, key $t{type} NOT NULL, part int2 NOT NULL, v int, note text);
CREATE UNIQUE INDEX ${table}_key ON $table USING fpbtree ($t{columns});
ALTER TABLE $table REPLICA IDENTITY USING INDEX ${table}_key;
SQL
	}
	$node->safe_psql('postgres', <<'SQL');
CREATE TABLE whole (id int, key int, v int, note text);
CREATE INDEX whole_key ON whole USING fpbtree (key);
ALTER TABLE whole REPLICA IDENTITY FULL;
SQL
}

# Rows that are there before, and rows that come later.
$publisher->safe_psql('postgres', join '', map { insert_rows($_, 1, 1500) } @identified);
$publisher->safe_psql('postgres', q{INSERT INTO whole SELECT i, nullif(i % 200, 0), i % 10, CASE WHEN i % 3 > 0 THEN 'note ' || i END FROM generate_series(1, 1000) i});
$publisher->safe_psql('postgres', 'UPDATE filtered SET key = -key WHERE id % 6 = 0');
$publisher->safe_psql('postgres', 'CREATE PUBLICATION publication FOR TABLE by_int, by_text, by_icu, whole, filtered WHERE (key > 0)');
my $where = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION subscription CONNECTION '$where' PUBLICATION publication");
$subscriber->wait_for_subscription_sync($publisher, 'subscription');
tables_are_alike('first copy', 'whole', @identified);
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM filtered WHERE key > 0'), '1250', 'what is not published is not copied');
$publisher->safe_psql('postgres', join '', map { insert_rows($_, 1501, 2000) } @identified);
tables_are_alike('inserted', @identified);

# Identified by all columns, NULLs and equal keys among them: by an index of fpbtree only from 18 on.
$publisher->safe_psql('postgres', <<'SQL');
UPDATE whole SET v = v + 1, note = NULL WHERE id % 5 = 0;
UPDATE whole SET key = key + 1000 WHERE id % 7 = 0;
UPDATE whole SET key = NULL WHERE id % 8 = 0;
DELETE FROM whole WHERE id % 9 = 0;
INSERT INTO whole SELECT 2000, 7, 7, 'twin' FROM generate_series(1, 3);
DELETE FROM whole WHERE ctid = (SELECT min(ctid) FROM whole WHERE note = 'twin');
SQL
tables_are_alike('all columns', 'whole');
if ($version >= 18)
{
	is_used('all columns', 'whole_key');
}
else
{
	ok($subscriber->poll_query_until('postgres', q{SELECT seq_scan > 500 FROM pg_stat_user_tables WHERE relname = 'whole'}), 'all columns: sequentially');
	is($subscriber->safe_psql('postgres', q{SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'whole_key'}), '0', 'all columns: not by an index');
}
if ($version == 16 || $version == 17)
{
	$subscriber->safe_psql('postgres', 'CREATE INDEX whole_btree ON whole (key)');
	$publisher->safe_psql('postgres', 'UPDATE whole SET v = v + 1 WHERE id % 4 = 0');
	tables_are_alike('all columns, btree', 'whole');
	is_used('all columns, btree', 'whole_btree');
}

# Identified by a unique index.
my $identity = 'key';
if ($version == 17)
{
	my %before = map { $_ => rows_of($subscriber, $_) } @identified;
	my $so_far = -s $subscriber->logfile;
	$publisher->safe_psql('postgres', change_rows($_, 1)) for @identified;
	ok($subscriber->wait_for_log(qr/ERROR: .*missing operator/, $so_far), '17: changes are refused');
	is(rows_of($subscriber, $_), $before{$_}, "17: $_ stays as it was") for @identified;
	# Beside the other, at the subscriber; those at the publisher may stay the identities that they are.
	$identity = 'other';
	for my $table (@identified)
	{
		$subscriber->safe_psql('postgres', <<"SQL");
CREATE UNIQUE INDEX ${table}_other ON $table ($identified{$table}{columns});
ALTER TABLE $table REPLICA IDENTITY USING INDEX ${table}_other;
SQL
	}
}
else
{
	$publisher->safe_psql('postgres', change_rows($_, 1)) for @identified;
}
tables_are_alike('changed', @identified);
is_used('changed', "${_}_$identity") for @identified;
is_sound($subscriber, 'changed', @indexes);
$publisher->safe_psql('postgres', change_rows($_, 2)) for @identified;
tables_are_alike('changed again', @identified);

# A row of the subscriber's own is in the way of one that comes, until it is removed.
my $so_far = -s $subscriber->logfile;
$subscriber->safe_psql('postgres', q{INSERT INTO by_text VALUES (0, 'in the way', 1)});
$publisher->safe_psql('postgres', q{INSERT INTO by_text VALUES (1, 'in the way', 1)});
my $refusal = $version >= 18 ? qr/conflict=insert_exists.*\n(?:.*\n)?.*Key already exists in unique index "by_text_key"/ : qr/duplicate key value violates unique constraint "by_text_key"/;
ok($subscriber->wait_for_log($refusal, $so_far), 'a conflict is found');
$subscriber->safe_psql('postgres', 'DELETE FROM by_text WHERE id = 0');
tables_are_alike('conflict removed', 'by_text');

$publisher->safe_psql('postgres', 'TRUNCATE by_icu;' . insert_rows('by_icu', 1, 700));
tables_are_alike('made empty and filled', 'whole', @identified);
for my $node ($publisher, $subscriber)
{
	is_sound($node, $node->name, @indexes);
	server_is_clean($node, $node->name);
}
answers_alike($subscriber, 'subscriber', 'SELECT key FROM by_int WHERE key > 700', 'SELECT part, key FROM by_text ORDER BY part DESC, key',
	q{SELECT key, v FROM by_icu WHERE key > 'B'}, 'SELECT key FROM filtered WHERE key < 900', 'SELECT key FROM whole WHERE key = 7');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION subscription');
$subscriber->stop;
$publisher->stop;
done_testing();
