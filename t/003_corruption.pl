# Every line of every page of an index is overwritten in turn, each in an index of its own. Nothing
# then crashes or hangs: a statement answers, or says that the index is corrupted. What fpbtree_check
# finds no fault with answers rightly, and most damage it does find.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my ($page_size, $line_size) = (8192, 64);
my $lines = $page_size / $line_size;

my $node = PostgreSQL::Test::Cluster->new('corruption');
# From 18 on checksums are on unless refused; what is tested here is what goes unnoticed by them.
$node->init(extra => `initdb --help` =~ /--no-data-checksums/ ? ['--no-data-checksums'] : []);
# log_statement would write more than the tests do.
$node->append_conf('postgresql.conf', "autovacuum = off\nrestart_after_crash = off\nlog_statement = none\nlog_min_messages = warning\njit = off\nstatement_timeout = 10s\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE bystander (id int, v int);
CREATE INDEX bystander_v ON bystander USING fpbtree (v);
INSERT INTO bystander SELECT i, i % 100 FROM generate_series(1, 5000) i;
SQL

# Two shapes. "built": bulk loaded, one column. "grown": several columns, entries inserted one by one,
# many deleted again and whole pages emptied.
my %shape = (
	built => {
		create => 'CREATE TABLE %1$s (id int, v int); INSERT INTO %1$s SELECT i, i * 7 %% 5000 FROM generate_series(1, 4000) i; CREATE INDEX %1$s_idx ON %1$s USING fpbtree (v)',
		step => 1,
		garbage => [ sub { join '', map { chr int rand 256 } 1 .. $line_size } ],
	},
	grown => {
		create => 'CREATE TABLE %1$s (id int, v int, w int2); CREATE INDEX %1$s_idx ON %1$s USING fpbtree (v, w DESC); INSERT INTO %1$s SELECT i, i, i %% 50 FROM generate_series(1, 2500) i; DELETE FROM %1$s WHERE v BETWEEN 300 AND 1500 OR id %% 4 = 0; ',
		vacuum => 1,
		step => 4,
		garbage => [
			sub { "\xff" x $line_size },
			sub { "\0" x $line_size },
			sub { my ($page, $at) = @_; substr $page, ($at + $line_size) % $page_size, $line_size },    # another line
			sub { my ($page, $at) = @_; substr($page, $at, $line_size) ^ ("\0" x 17 . "\x40" . "\0" x ($line_size - 18)) },    # one bit
			sub { my ($page, $at) = @_; substr($page, $at, $line_size) ^ ("\0" x 32 . "\x01" . "\0" x ($line_size - 33)) },
		],
	});

# What is tried, in this order; each in a subtransaction. OTHERS lets a timeout through.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE outcome (tab text, step text, result text);
CREATE FUNCTION try(tab text, step text, statement text, settings text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  got text;
  state text;
  message text;
BEGIN
  PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
          set_config('enable_indexscan', (settings <> 'bitmap')::text, true),
          set_config('enable_bitmapscan', (settings = 'bitmap')::text, true),
          set_config('enable_indexonlyscan', (settings = 'only')::text, true);
  EXECUTE statement INTO got;
  RETURN coalesce(got, 'none');
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
  RETURN state || ' ' || message;
END $$;
CREATE FUNCTION probe(tab text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  r record;
  right_answer text;
  got text;
BEGIN
  FOR r IN SELECT * FROM (VALUES
      ('SELECT md5(string_agg(v::text, '','')) FROM (SELECT v FROM %s ORDER BY v) s', 'index'),
      ('SELECT md5(string_agg(v::text, '','')) FROM (SELECT v FROM %s ORDER BY v DESC) s', 'only'),
      ('SELECT sum(id) FROM %s WHERE v BETWEEN 200 AND 1700', 'index'),
      ('SELECT sum(v) FROM %s WHERE v > 900', 'only'),
      ('SELECT sum(id) FROM %s WHERE v < 2222', 'bitmap'),
      ('SELECT sum(id) FROM %s WHERE v = ANY (ARRAY(SELECT g * 7 FROM generate_series(0, 800) g))', 'index'),
      ('SELECT sum((SELECT count(*) FROM %s t WHERE t.v = g)) FROM generate_series(0, 5000, 250) g', 'only')) v (query, settings) LOOP
    PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
            set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'on', true);
    EXECUTE format(r.query, tab) INTO right_answer;
    got := try(tab, 'read', format(r.query, tab), r.settings);
    INSERT INTO outcome VALUES (tab, 'read', CASE WHEN got = right_answer THEN 'right' WHEN got ~ '^XX' THEN got ELSE 'wrong ' || got END);
  END LOOP;
  INSERT INTO outcome VALUES (tab, 'check', try(tab, 'check', format('SELECT string_agg(concat_ws('' '', c.block, c.what, c.detail), ''; '') FROM fpbtree_check(''%s_idx'', true) c', tab)));
  -- What is shown of its pages, and drawn of all of them.
  INSERT INTO outcome SELECT tab, 'inside', try(tab, 'inside', format(q, tab, split_part(tab, '_', 2))) FROM unnest(ARRAY[
    'SELECT ''ok'' FROM fpbtree_page(''%s_idx'', %s)', 'SELECT max(''ok''::text) FROM fpbtree_entries(''%s_idx'', %s)',
    'SELECT left(fpbtree_picture(''%s_idx'', %s), 4)', 'SELECT left(fpbtree_map(''%s_idx''), 4)']) q
   WHERE q !~ 'entries' OR split_part(tab, '_', 2) <> '0';
  INSERT INTO outcome VALUES (tab, 'stats', try(tab, 'stats', format('SELECT ''ok'' FROM fpbtree_stats(''%s_idx'')', tab)));
END $$;
CREATE FUNCTION change(tab text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outcome VALUES
    (tab, 'insert', try(tab, 'insert', format('WITH c AS (INSERT INTO %s (id, v) SELECT i, i * 11 FROM generate_series(1, 400) i RETURNING 1) SELECT ''done'' FROM c LIMIT 1', tab))),
    (tab, 'delete', try(tab, 'delete', format('WITH c AS (DELETE FROM %s WHERE v > 0 AND id %% 2 = 0 RETURNING 1) SELECT ''done'' FROM c LIMIT 1', tab)))
$$;
SQL

# One index for each block and line, made by one script.
my %damage;
my $create = '';
for my $name (sort keys %shape)
{
	my $shape = $shape{$name};
	my $model = "model_$name";
	my @make = map { sprintf "%s;\n", sprintf $shape->{create}, $_ } $model;
	$node->safe_psql('postgres', $make[0]);
	$node->safe_psql('postgres', "VACUUM $model") if $shape->{vacuum};
	my $blocks = $node->safe_psql('postgres', "SELECT pg_relation_size('${model}_idx') / $page_size");
	cmp_ok($blocks, '>=', 3, "$name: several pages");
	for my $block (0 .. $blocks - 1)
	{
		for (my $line = 0; $line < $lines; $line += $shape->{step})
		{
			my $tab = "${name}_${block}_$line";
			$damage{$tab} = { shape => $shape, block => $block, line => $line, name => $name };
			$create .= sprintf("$shape->{create};\n", $tab);
			$create .= "VACUUM $tab;\n" if $shape->{vacuum};
		}
	}
}
$node->safe_psql('postgres', "SET synchronous_commit = off;\n$create");
my %file = map { split /\|/ } split /\n/,
  $node->safe_psql('postgres', q{SELECT regexp_replace(relname, '_idx$', ''), pg_relation_filepath(oid) FROM pg_class WHERE relname ~ '_idx$'});
$node->stop;

# Bytes between pd_lower and pd_upper belong to nobody.
srand 20;
for my $tab (sort keys %damage)
{
	my $d = $damage{$tab};
	my $path = $node->data_dir . "/$file{$tab}";
	open my $f, '+<:raw', $path or die "$path: $!";
	seek $f, $d->{block} * $page_size, 0;
	read($f, my $page, $page_size) == $page_size or die "$path: short";
	my ($lower, $upper) = unpack 'x12 S S', $page;
	my $at = $d->{line} * $line_size;
	my @garbage = @{ $d->{shape}{garbage} };
	my $bytes = $garbage[ ($d->{block} + $d->{line} / $d->{shape}{step}) % @garbage ]->($page, $at);
	$d->{unused} = $at >= $lower && $at + $line_size <= $upper || $bytes eq substr $page, $at, $line_size;
	seek $f, $d->{block} * $page_size + $at, 0;
	print $f $bytes;
	close $f or die "$path: $!";
}
$node->start;
my $postmaster = $node->{_pid};

for my $step ('SELECT probe(%s)', 'SELECT change(%s)', 'VACUUM %s')
{
	my $quote = $step =~ /VACUUM/ ? '' : q{'};
	my ($status, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY sqlstate\n" . join('', map { sprintf("$step;\n", "$quote$_$quote") } sort keys %damage), on_error_stop => 0);
	cmp_ok($status, '!=', 2, "$step: the server lives");
	my @strange = grep { /ERROR|FATAL|PANIC|server closed/ && !/ERROR: +(?:XX00[12]|0A000)$/ } split /\n/, $err;
	is(join("\n", grep { defined } @strange[ 0 .. 39 ]), '', "$step: nothing but corruption is reported");
}
$node->safe_psql('postgres', 'REINDEX TABLE ' . $_) for grep { /_0$/ } sort keys %damage;

my %seen;
push @{ $seen{ $_->[0] }{ $_->[1] } }, $_->[2] for map { [ split /\|/, $_, 3 ] } split /\n/,
  $node->safe_psql('postgres', q{SELECT tab, step, replace(result, E'\n', ' ') FROM outcome});
is(scalar(keys %seen), scalar(keys %damage), 'every index was tried');

# XX002: index corrupted. 0A000: the format that a page says it has is none.
# XX001, data corrupted, comes from the server: a page header that makes no
# sense, a row that an overwritten entry says is beyond the end of the table.
my (@states, @believed, %found, %used);
for my $tab (sort keys %seen)
{
	my %steps = %{ $seen{$tab} };
	my $d = $damage{$tab};
	for my $step (sort keys %steps)
	{
		push @states, "$tab $step: $_" for grep { /^[0-9A-Z]{5} / && !/^XX00[12] / && !/^0A000 index \S+ (?:block \d+ )?has format \d+,/ } @{ $steps{$step} };
	}
	my $check = $steps{check}[0];
	my $quiet = $check eq 'none';
	push @believed, "$tab: check finds nothing, but: $_" for grep { $quiet && $_ ne 'right' } @{ $steps{read} };
	push @states, "$tab: unused bytes, but check says: $check" if $d->{unused} && !$quiet;
	next if $d->{unused};
	$used{"$d->{name} block $d->{block}"}++;
	$found{"$d->{name} block $d->{block}"}++ unless $quiet;
}
is(join("\n", grep { defined } @states[ 0 .. 39 ]), '', 'only corruption is reported');
is(join("\n", grep { defined } @believed[ 0 .. 39 ]), '', 'what is not reported does no harm');
# Damage to places that hold no entry yet, or to a deleted page, harms nobody; to most others it does.
cmp_ok($found{$_} // 0, '>=', $used{$_} * (/^built/ ? 0.7 : 0.3), "$_: $used{$_} lines, most are noticed") for grep { $used{$_} > 1 } sort keys %used;

# The neighbours.
is_sound($node, 'bystander', 'bystander_v');
answers_alike($node, 'bystander', 'SELECT v FROM bystander WHERE v > 50', 'SELECT id, v FROM bystander ORDER BY v, id');
$node->safe_psql('postgres', 'INSERT INTO bystander SELECT i, i FROM generate_series(1, 3000) i');
is_sound($node, 'bystander', 'bystander_v', map { "${_}_idx" } grep { /_0$/ } sort keys %damage);
is($node->{_pid}, $postmaster, 'one server all along');
my @ill = grep { /terminated by signal|PANIC:|TRAP:|panicked at|refcount leak|resource was not closed/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @ill), '', 'the log tells of no crash and no leak');
$node->stop('immediate');

# A file cut short.
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE cut (id int, v int); INSERT INTO cut SELECT i, i FROM generate_series(1, 5000) i; CREATE INDEX cut_idx ON cut USING fpbtree (v)');
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('cut_idx')});
$node->stop;
for my $length (3 * $page_size, $page_size, 0)
{
	truncate $path, $length;
	$node->start;
	for my $statement ('SET enable_seqscan = off; SELECT count(*) FROM cut WHERE v > 100', 'INSERT INTO cut VALUES (1, 4999)', q{SELECT 1 / (count(*) = 0)::int FROM fpbtree_check('cut_idx')})
	{
		my ($status, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\n$statement");
		like($err, qr/XX00[12]|22012/, "cut to $length bytes: $statement") if $status;
		cmp_ok($status, '!=', 2, "cut to $length bytes: the server lives");
		is($status, 3, "cut to $length bytes: $statement fails") if $statement !~ /INSERT/;
	}
	$node->safe_psql('postgres', 'SELECT 1');
	$node->stop;
}
done_testing();
