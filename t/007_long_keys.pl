# What the other files do to integers is done to texts: a server killed under load, a standby, damaged
# pages, cancelled builds.
# Needs: icu
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my ($page_size, $line_size) = (8192, 64);

# Keys from a few bytes to more than a thousand, most of them alike for long; values are drawn with random().
my $key = q{CASE WHEN r < 0.1 THEN md5(r::text) WHEN r < 0.8 THEN 'https://www.example.com/catalogue/' || (r * 20)::int || '/article?id=' || md5((r * 1e5)::int::text)
                 WHEN r < 0.95 THEN repeat('long ', 40) || (r * 1e6)::int ELSE repeat(md5(r::text), 1 + (r * 1e4)::int % 45) END};
my $one = $key =~ s/\br\b/random()/r =~ s/\br\b/0.5/gr;
my $create = <<"SQL";
CREATE EXTENSION fpbtree;
CREATE TABLE t (id serial, v text COLLATE "C", w text, n numeric, k int) WITH (autovacuum_enabled = off);
CREATE FUNCTION fill(rows int) RETURNS void LANGUAGE sql AS \$\$
  INSERT INTO t (v, w, n, k) SELECT $key, md5((r * 1e5)::int::text), round((r * 1e4)::numeric, 2), (r * 1e9)::int FROM (SELECT random() AS r FROM generate_series(1, rows)) s
\$\$;
SELECT fill(15000);
CREATE INDEX t_v ON t USING fpbtree (v);
CREATE INDEX t_w ON t USING fpbtree (w DESC) INCLUDE (n);
CREATE INDEX t_n ON t USING fpbtree (n, v);
CREATE UNIQUE INDEX t_unique ON t USING fpbtree ((v || id));
CREATE INDEX t_part ON t USING fpbtree (left(v, 300)) WHERE k % 10 = 3;
SQL
my @indexes = qw(t_v t_w t_n t_unique t_part);
my @queries = (
	q{SELECT v FROM t WHERE v > 'https://www.example.com/catalogue/5' AND v < 'm'},
	q{SELECT v FROM t ORDER BY v},
	q{SELECT w, n FROM t WHERE w > '7'},
	q{SELECT n, v FROM t WHERE n > 5000 AND v < 'https'},
	q{SELECT id FROM t WHERE v || id > 'https://www.example.com/catalogue/7'},
	q{SELECT id FROM t WHERE left(v, 300) > 'long' AND k % 10 = 3});
my %load = (
	'SELECT fill(30);' => 8,
	"\\set a random(1, 40000)\nUPDATE t SET v = reverse(v), n = n + 1 WHERE id BETWEEN :a AND :a + 20;" => 4,
	"\\set a random(1, 40000)\nUPDATE t SET k = k + 1 WHERE id BETWEEN :a AND :a + 20;" => 2,
	"\\set a random(1, 40000)\nDELETE FROM t WHERE id BETWEEN :a AND :a + 60;" => 4,
	"\\set a random(1, 40000)\nDELETE FROM t WHERE id BETWEEN :a AND :a + 2000 AND random() < 0.9;" => 1,
	"\\set a random(1, 40000)\nBEGIN; UPDATE t SET w = w || 'x' WHERE id BETWEEN :a AND :a + 50; ROLLBACK;" => 1,
	'VACUUM (SKIP_LOCKED) t;' => 1);

# Killed under load.
my $node = PostgreSQL::Test::Cluster->new('crash');
$node->init(extra => [ '--encoding', 'UTF8' ]);
$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 4MB
checkpoint_timeout = 30s
max_wal_size = 64MB
min_wal_size = 32MB
autovacuum = off
bgwriter_delay = 10ms
bgwriter_lru_maxpages = 1000
restart_after_crash = off
log_statement = none
CONF
$node->start;
$node->safe_psql('postgres', $create);
for my $round (1 .. 3)
{
	my $pgbench = start_load($node, 4, 60, %load);
	select undef, undef, undef, 2 + rand(2);
	cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'}),
		'>', 2, "round $round: under load");
	kill_all($node);
	$pgbench->finish;
	$node->start;
	is_sound($node, "round $round", @indexes);
	answers_alike($node, "round $round", @queries);
}
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 5 <> 0');
$node->safe_psql('postgres', 'VACUUM t');
is_sound($node, 'after the rounds', @indexes);
$node->safe_psql('postgres', 'SELECT fill(5000)');
is_sound($node, 'filled again', @indexes);
answers_alike($node, 'filled again', @queries);

# Builds that are cancelled leave nothing.
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE big (id int, v text COLLATE "C", w text);
INSERT INTO big SELECT i, 'https://www.example.com/' || md5(i::text), md5(i::text) FROM generate_series(1, 600000) i;
SQL
for my $statement ('CREATE INDEX big_v ON big USING fpbtree (v)', 'CREATE INDEX big_v ON big USING fpbtree (w COLLATE "en-x-icu")',
	'CREATE UNIQUE INDEX big_v ON big USING fpbtree (v) INCLUDE (w)', "SET maintenance_work_mem = '1MB'; CREATE INDEX big_v ON big USING fpbtree (w, v)")
{
	my ($status, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET client_min_messages = warning; SET statement_timeout = '40ms'; $statement");
	is($err, "psql:<stdin>:2: ERROR:  57014", "cancelled: $statement");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'big_v'}), '0', 'nothing is left');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_tmpdir()}), '0', 'no temporary files are left');
$node->safe_psql('postgres', q{SET maintenance_work_mem = '1MB'; CREATE INDEX big_v ON big USING fpbtree (v)});
my ($status, undef, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET statement_timeout = '40ms'; REINDEX INDEX big_v");
like($err, qr/ERROR:  57014/, 'reindex: cancelled');
is_sound($node, 'after cancelled builds', 'big_v');
$node->psql('postgres', "SET statement_timeout = '100ms'; INSERT INTO big SELECT i, 'https://www.example.com/x' || md5(i::text) FROM generate_series(1, 200000) i");
$node->psql('postgres', "SET statement_timeout = '100ms'; SELECT count(*) FROM big a JOIN generate_series(1, 100) g ON a.v > 'https://www.example.com/' || g");
is($node->safe_psql('postgres', 'SELECT count(*) FROM big'), '600000', 'a cancelled insert leaves no row');
is_sound($node, 'after cancelled inserts', 'big_v');
$node->safe_psql('postgres', 'VACUUM big');
is_sound($node, 'their remains vacuumed', 'big_v');
answers_alike($node, 'after cancelled statements', q{SELECT v FROM big WHERE v BETWEEN 'https://www.example.com/2' AND 'https://www.example.com/23'});
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|panicked at/, 'nobody panicked');
$node->stop;

# A standby.
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--encoding', 'UTF8' ]);
$primary->append_conf('postgresql.conf', "shared_buffers = 8MB\nautovacuum = off\nlog_statement = none\nwal_consistency_checking = 'generic'\nwal_keep_size = 8GB\n");
$primary->start;
$primary->safe_psql('postgres', $create);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "hot_standby_feedback = on\nmax_standby_streaming_delay = -1\n");
$standby->start;
my $pgbench = start_load($primary, 3, 6, %load);
my $looks = 0;
while ($pgbench->pumpable && $looks < 3)
{
	$looks++;
	answers_alike($standby, "under load, look $looks", @queries[ 0, 2, 3, 4 ]);
}
$pgbench->finish;
catch_up($primary, $standby);
answers_alike($standby, 'after the load', @queries);
is($standby->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*), md5(string_agg(v, ',' ORDER BY v)) FROM t WHERE v > 'https'}),
	$primary->safe_psql('postgres', q{SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SELECT count(*), md5(string_agg(v, ',' ORDER BY v)) FROM t WHERE v > 'https'}),
	'the primary\'s answer');
is_sound($standby, 'standby', @indexes);
is_sound($primary, 'primary', @indexes);
$primary->safe_psql('postgres', q{DELETE FROM t WHERE v > 'https://www.example.com/catalogue/5' AND id % 7 > 0});
$primary->safe_psql('postgres', 'VACUUM t');
$primary->safe_psql('postgres', 'REINDEX INDEX t_w; SELECT fill(3000)');
catch_up($primary, $standby);
answers_alike($standby, 'vacuumed', @queries);
$standby->promote;
is_sound($standby, 'promoted', @indexes);
$standby->safe_psql('postgres', 'SELECT fill(3000); DELETE FROM t WHERE id % 3 = 0');
$standby->safe_psql('postgres', 'VACUUM t');
is_sound($standby, 'written to', @indexes);
answers_alike($standby, 'written to', @queries);
server_is_clean($_, $_->name) for $primary, $standby;
$standby->stop;
$primary->stop;

# Damaged pages: lines of each page of an index are overwritten, each in an index of its own. Nothing
# crashes or hangs; a statement answers or says that the index is corrupted; what is not noticed by
# fpbtree_check does no harm.
$node = PostgreSQL::Test::Cluster->new('corruption');
$node->init(extra => [ '--encoding', 'UTF8', `initdb --help` =~ /--no-data-checksums/ ? '--no-data-checksums' : () ]);
$node->append_conf('postgresql.conf', "autovacuum = off\nrestart_after_crash = off\nlog_statement = none\nlog_min_messages = warning\njit = off\nstatement_timeout = 10s\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fpbtree;
CREATE TABLE outcome (tab text, step text, result text);
CREATE FUNCTION try(statement text, settings text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
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
      ('SELECT md5(string_agg(v, '','')) FROM (SELECT v FROM %s ORDER BY v) s', 'index'),
      ('SELECT md5(string_agg(v, '','')) FROM (SELECT v FROM %s ORDER BY v DESC) s', 'only'),
      ('SELECT sum(id) FROM %s WHERE v BETWEEN repeat(''prefix '', 9) || 200 AND repeat(''prefix '', 9) || 700', 'bitmap'),
      ('SELECT md5(string_agg(w, '','' ORDER BY w)) FROM %s WHERE v > repeat(''prefix '', 9) || 300', 'only'),
      ('SELECT sum((SELECT count(*) FROM %s t WHERE t.v = repeat(''prefix '', 9) || g)) FROM generate_series(1, 999, 50) g', 'only')) v (query, settings) LOOP
    PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true),
            set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'on', true);
    EXECUTE format(r.query, tab) INTO right_answer;
    got := try(format(r.query, tab), r.settings);
    INSERT INTO outcome VALUES (tab, 'read', CASE WHEN got = coalesce(right_answer, 'none') THEN 'right' WHEN got ~ '^XX' THEN got ELSE 'wrong ' || got END);
  END LOOP;
  INSERT INTO outcome VALUES (tab, 'check', try(format('SELECT string_agg(concat_ws('' '', c.block, c.what, c.detail), ''; '') FROM fpbtree_check(''%s_idx'', true) c', tab))),
                             (tab, 'stats', try(format('SELECT ''ok'' FROM fpbtree_stats(''%s_idx'')', tab)));
END $$;
CREATE FUNCTION change(tab text) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outcome VALUES
    (tab, 'insert', try(format('WITH c AS (INSERT INTO %s (id, v, w) SELECT i, repeat(''prefix '', 9) || i * 11, i FROM generate_series(2000, 2300) i RETURNING 1) SELECT ''done'' FROM c LIMIT 1', tab))),
    (tab, 'delete', try(format('WITH c AS (DELETE FROM %s WHERE v > '''' AND id %% 2 = 0 RETURNING 1) SELECT ''done'' FROM c LIMIT 1', tab)))
$$;
SQL
my @shapes = (
	'CREATE TABLE %1$s (id int, v text COLLATE "C", w text); INSERT INTO %1$s SELECT i, repeat(\'prefix \', 9) || i, i FROM generate_series(1, 900) i; CREATE INDEX %1$s_idx ON %1$s USING fpbtree (v)',
	'CREATE TABLE %1$s (id int, v text, w text); CREATE UNIQUE INDEX %1$s_idx ON %1$s USING fpbtree (v DESC) INCLUDE (w); INSERT INTO %1$s SELECT i, repeat(\'prefix \', 9) || i, repeat(\'w\', i %% 40) FROM generate_series(1, 700) i; DELETE FROM %1$s WHERE id BETWEEN 100 AND 300');
my @garbage = (
	sub { join '', map { chr int rand 256 } 1 .. $line_size },
	sub { "\xff" x $line_size },
	sub { my ($page, $at) = @_; substr $page, ($at + $line_size) % $page_size, $line_size },    # another line
	sub { my ($page, $at) = @_; substr($page, $at, $line_size) ^ ("\0" x 17 . "\x40" . "\0" x ($line_size - 18)) });    # one bit
my %damage;
my $script = "SET client_min_messages = warning;\nSET synchronous_commit = off;\n";
for my $shape (0 .. $#shapes)
{
	$node->safe_psql('postgres', "SET client_min_messages = warning;\n" . sprintf $shapes[$shape], "model_$shape");
	$node->safe_psql('postgres', "VACUUM model_$shape");
	my $blocks = $node->safe_psql('postgres', "SELECT pg_relation_size('model_${shape}_idx') / $page_size");
	cmp_ok($blocks, '>=', 3, "shape $shape: several pages");
	for my $block (0 .. ($blocks < 8 ? $blocks : 8) - 1)
	{
		for (my $line = $shape; $line < $page_size / $line_size; $line += 5)
		{
			my $tab = "d${shape}_${block}_$line";
			$damage{$tab} = { block => $block, line => $line };
			$script .= sprintf("$shapes[$shape];\n", $tab) . "VACUUM $tab;\n";
		}
	}
}
$node->safe_psql('postgres', $script);
my %file = map { split /\|/ } split /\n/,
  $node->safe_psql('postgres', q{SELECT regexp_replace(relname, '_idx$', ''), pg_relation_filepath(oid) FROM pg_class WHERE relname ~ '^d.*_idx$'});
$node->stop;
srand 21;
for my $tab (sort keys %damage)
{
	my $d = $damage{$tab};
	my $path = $node->data_dir . "/$file{$tab}";
	open my $f, '+<:raw', $path or die "$path: $!";
	seek $f, $d->{block} * $page_size, 0;
	read($f, my $page, $page_size) == $page_size or die "$path: short";
	my $at = $d->{line} * $line_size;
	my $bytes = $garbage[ ($d->{block} + $d->{line}) % @garbage ]->($page, $at);
	# Bytes between pd_lower and pd_upper belong to nobody.
	my ($lower, $upper) = unpack 'x12 S S', $page;
	$d->{unused} = $at >= $lower && $at + $line_size <= $upper || $bytes eq substr $page, $at, $line_size;
	seek $f, $d->{block} * $page_size + $at, 0;
	print $f $bytes;
	close $f or die "$path: $!";
}
$node->start;
my $postmaster = $node->{_pid};
for my $step (q{SELECT probe('%s')}, q{SELECT change('%s')}, 'VACUUM %s')
{
	my ($status, undef, $err) = $node->psql('postgres',
		"\\set VERBOSITY sqlstate\n" . join('', map { sprintf("$step;\n", $_) } sort keys %damage), on_error_stop => 0);
	cmp_ok($status, '!=', 2, "$step: the server lives");
	my @strange = grep { /ERROR|FATAL|PANIC|server closed/ && !/ERROR: +XX00[12]$/ } split /\n/, $err;
	is(join("\n", grep { defined } @strange[ 0 .. 39 ]), '', "$step: nothing but corruption is reported");
}
my %seen;
push @{ $seen{ $_->[0] }{ $_->[1] } }, $_->[2] for map { [ split /\|/, $_, 3 ] } split /\n/,
  $node->safe_psql('postgres', q{SELECT tab, step, replace(result, E'\n', ' ') FROM outcome});
is(scalar(keys %seen), scalar(keys %damage), 'every index was tried');
my (@states, @believed);
my ($found, $used) = (0, 0);
for my $tab (sort keys %seen)
{
	my %steps = %{ $seen{$tab} };
	for my $step (sort keys %steps)
	{
		# An entry of the unique index that says another key than its row has may be in the way of that key.
		my $allowed = $step eq 'insert' && $tab =~ /^d1/ ? qr/^(XX00[12]|23505) / : qr/^XX00[12] /;
		push @states, "$tab $step: $_" for grep { /^[0-9A-Z]{5} / && !/$allowed/ } @{ $steps{$step} };
	}
	my $check = $steps{check}[0];
	my $quiet = $check eq 'none';
	push @believed, "$tab: check finds nothing, but: $_" for grep { $quiet && $_ ne 'right' } @{ $steps{read} };
	push @states, "$tab: unused bytes, but check says: $check" if $damage{$tab}{unused} && !$quiet;
	next if $damage{$tab}{unused};
	$used++;
	$found++ unless $quiet;
}
is(join("\n", grep { defined } @states[ 0 .. 39 ]), '', 'only corruption is reported');
is(join("\n", grep { defined } @believed[ 0 .. 39 ]), '', 'what is not reported does no harm');
cmp_ok($found, '>=', $used * 0.4, "$used lines overwritten, most are noticed");
is($node->{_pid}, $postmaster, 'one server all along');
my @ill = grep { /terminated by signal|PANIC:|TRAP:|panicked at|refcount leak|resource was not closed/ } split /\n/, slurp_file($node->logfile);
is(join("\n", @ill), '', 'the log tells of no crash and no leak');
my @again = grep { /_[01]$/ } sort keys %damage;
$node->safe_psql('postgres', "SET client_min_messages = warning; SET synchronous_commit = off; REINDEX TABLE $_") for @again;
is_sound($node, 'rebuilt', map { "${_}_idx" } @again);
$node->stop;
done_testing();
