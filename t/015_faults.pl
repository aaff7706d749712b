# Damaged files: flipped bits at every kind of page, torn, zeroed, stale, swapped and foreign pages, files of other
# relations, files cut short or grown. Each damage is done to an index of its own while the server is down. Nothing then
# crashes or hangs; a statement answers rightly or says that the index is corrupted, where and what to do. Wrong answers
# that are given without a word are counted by what was damaged.
use strict;
use warnings;
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my ($page_size, $rounds) = (8192, 7);
my $node = PostgreSQL::Test::Cluster->new('faults');
# From 18 on checksums are on unless refused; what is tested here is mostly what goes unnoticed by them.
$node->init(extra => `initdb --help` =~ /--no-data-checksums/ ? ['--no-data-checksums'] : []);
$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 64MB
autovacuum = off
restart_after_crash = off
log_statement = none
log_min_messages = warning
jit = off
max_parallel_workers_per_gather = 0
statement_timeout = 20s
synchronous_commit = off
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION fpbtree');

# Of each kind some tables with the same rows. The long texts come in pairs that differ at their ends alone: parting two
# takes so long a separator that there are pages of three levels.
my %kind = (
	numbers => {
		count => 70, columns => 'v int', index => '(v)', column => 'v', log => 'generic',
		row => 'i * 7 % 5000', rows => 2000, more => '-i', value => 'i * 7', missing => '-i - 5000' },
	runs => {
		count => 40, columns => 'v int, w int2', index => '(v DESC, w)', column => 'v', log => 'own',
		row => 'i / 150, i % 100', rows => 3000, more => 'i / 10, 1', value => 'i / 40', missing => '-i' },
	texts => {
		count => 70, columns => 's text COLLATE "C"', index => '(s) INCLUDE (id)', column => 's', log => 'own',
		row => q{repeat(md5((i / 2)::text), 10) || i}, rows => 900, more => q{md5(i::text)},
		value => q{repeat(md5((i / 2)::text), 10) || i}, missing => q{'x' || i} },
	names => {
		count => 60, columns => 's text COLLATE "C", n numeric', index => '(s, n DESC)', column => 's', log => 'generic',
		row => q{'user' || i % 700 || '@example.com', i / 3.0}, rows => 2000, more => q{'user' || i || '!', i},
		value => q{'user' || i || '@example.com'}, missing => q{'user@' || i} });
my @tables;
for my $log ('generic', 'own')
{
	my $create = '';
	for my $name (grep { $kind{$_}{log} eq $log } sort keys %kind)
	{
		my $kind = $kind{$name};
		for my $number (1 .. $kind->{count})
		{
			my $table = "${name}_$number";
			push @tables, { name => $table, kind => $name };
			$create .= "CREATE TABLE $table (id int, $kind->{columns}); INSERT INTO $table SELECT i, $kind->{row} FROM generate_series(1, $kind->{rows}) i; CREATE INDEX ${table}_idx ON $table USING fpbtree $kind->{index};\n";
		}
	}
	$node->safe_psql('postgres', $create);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'fpbtree'");
	$node->restart;
}
is($node->safe_psql('postgres', "SELECT string_agg(log, ' ') FROM unnest('{numbers_1_idx,names_1_idx,runs_1_idx,texts_1_idx}'::text[]) i, fpbtree_stats(i::regclass)"),
	'generic generic own own', 'the logs');
is($node->safe_psql('postgres', q{SELECT levels FROM fpbtree_stats('texts_1_idx')}), '3', 'pages of three levels');

# What is tried of a table. Every answer is told beside the right one.
$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION try(statement text, settings text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  got text;
  state text;
  message text;
  advice text;
BEGIN
  PERFORM set_config('enable_seqscan', (settings = 'sequential')::text, true), set_config('enable_sort', (settings = 'sequential')::text, true),
          set_config('enable_indexscan', (settings IN ('index', 'only'))::text, true),
          set_config('enable_bitmapscan', (settings = 'bitmap')::text, true),
          set_config('enable_indexonlyscan', (settings = 'only')::text, true);
  EXECUTE statement INTO got;
  RETURN coalesce(got, 'none');
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, advice = PG_EXCEPTION_HINT;
  RETURN concat_ws(' ', 'ERROR', state, message, advice);
END $$;
CREATE FUNCTION reads(tab text, col text, value text, missing text) RETURNS TABLE (query text, settings text) LANGUAGE sql AS $$
  SELECT replace(replace(replace(replace(query, '%t', tab), '%c', col), '%v', value), '%m', missing), settings FROM (VALUES
    ('SELECT md5(string_agg(%c::text, '','')) FROM (SELECT %c FROM %t ORDER BY %c) s', 'index'),
    ('SELECT md5(string_agg(%c::text, '','')) FROM (SELECT %c FROM %t ORDER BY %c DESC) s', 'only'),
    ('SELECT sum(id) FROM %t WHERE %c > (SELECT %v FROM (SELECT 300 AS i) x)', 'index'),
    ('SELECT sum(hashtext(%c::text)) FROM %t WHERE %c < (SELECT %v FROM (SELECT 450 AS i) x)', 'only'),
    ('SELECT sum(id) FROM %t WHERE %c BETWEEN (SELECT min(%v) FROM generate_series(200, 201) i) AND (SELECT max(%v) FROM generate_series(700, 701) i)', 'bitmap'),
    ('SELECT sum(n) FROM generate_series(1, 690, 53) i, LATERAL (SELECT count(*) AS n FROM %t WHERE %c = %v) x', 'only'),
    ('SELECT sum(n) FROM generate_series(1, 690, 100) i, LATERAL (SELECT count(*) AS n FROM %t WHERE %c = %m) x', 'index'),
    ('SELECT sum(id) FROM %t WHERE %c = ANY (ARRAY(SELECT %v FROM generate_series(3, 690, 5) i))', 'index'),
    ('SELECT string_agg(%c::text, '','') FROM (SELECT %c FROM %t ORDER BY %c LIMIT 3) x', 'only'),
    ('SELECT string_agg(%c::text, '','') FROM (SELECT %c FROM %t ORDER BY %c DESC LIMIT 3) x', 'only')) v (query, settings)
$$;
-- Sequential scans of a table say what is right; it is the same for all of a kind.
CREATE TABLE answers (kind text, number bigint, answer text);
CREATE FUNCTION probe(tab text, tab_kind text, col text, value text, missing text) RETURNS TABLE (step text, result text) LANGUAGE plpgsql AS $$
DECLARE
  r record;
  got text;
BEGIN
  FOR r IN SELECT * FROM reads(tab, col, value, missing) WITH ORDINALITY q JOIN answers a ON a.kind = tab_kind AND a.number = q.ordinality ORDER BY number LOOP
    got := try(r.query, r.settings);
    RETURN QUERY SELECT 'read', CASE WHEN got = r.answer THEN 'right' WHEN got ~ '^ERROR' THEN got ELSE 'wrong ' || r.number || left(got, 40) END;
  END LOOP;
  RETURN QUERY SELECT 'check', try(format('SELECT string_agg(concat_ws('' '', c.block, c.what, c.detail), ''; '') FROM fpbtree_check(''%s_idx'', true) c', tab), 'only');
  RETURN QUERY SELECT 'stats', try(format('SELECT ''ok'' FROM fpbtree_stats(''%s_idx'')', tab), 'only');
END $$;
CREATE FUNCTION change(tab text, more text) RETURNS TABLE (step text, result text) LANGUAGE sql AS $$
  SELECT 'insert', try(format('WITH c AS (INSERT INTO %s SELECT i, %s FROM generate_series(1, 200, 4) i RETURNING 1) SELECT ''done'' FROM c LIMIT 1', tab, more), 'only')
  UNION ALL
  SELECT 'delete', try(format('WITH c AS (DELETE FROM %s WHERE id %% 3 = 0 RETURNING 1) SELECT ''done'' FROM c LIMIT 1', tab), 'only')
$$;
SQL

my $base = $node->data_dir . '/base/' . $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'postgres'});
sub save
{
	my ($name) = @_;
	$node->stop;
	my $copy = $node->basedir . "/$name";
	system_or_bail('cp', '-a', $base, $copy);
	$node->start;
	return $copy;
}

# What the indexes were, and what they are: some rows later, others gone.
my $earlier = save('earlier');
$node->safe_psql('postgres', join '', map {
	my ($table, $kind) = ($_->{name}, $kind{ $_->{kind} });
	"INSERT INTO $table SELECT i, $kind->{more} FROM generate_series(1, 300) i; DELETE FROM $table WHERE id % 5 = 0; VACUUM $table;\n"
} @tables);
for my $name (sort keys %kind)
{
	my $kind = $kind{$name};
	$node->safe_psql('postgres', "CREATE INDEX foreign_$name ON ${name}_1 USING btree ($kind->{column})");
	$node->safe_psql('postgres',
		qq{INSERT INTO answers SELECT '$name', ordinality, try(query, 'sequential') FROM reads('${name}_1', '$kind->{column}', \$\$$kind->{value}\$\$, \$\$$kind->{missing}\$\$) WITH ORDINALITY});
	is($node->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE answer <> 'none') > 7 FROM answers WHERE kind = '$name' AND answer !~ '^ERROR'"),
		'10|t', "$name: the answers");
}
my %file = map { split /\|/ } split /\n/,
  $node->safe_psql('postgres', q{SELECT relname, relfilenode FROM pg_class WHERE relname ~ '^(numbers|runs|texts|names|foreign)'});
my $now = save('now');
$node->stop;

sub contents { my ($path) = @_; my $bytes = slurp_file($path); return $bytes; }
sub pages { my ($bytes) = @_; return unpack "(a$page_size)*", $bytes; }

# What a page is, and what a byte of one is part of.
sub kind_of
{
	my ($page) = @_;
	my $level = ord substr $page, 36, 1;
	return 'new' if $page =~ /^\0*\z/;
	return $level == 255 ? 'meta' : $level == 0 ? 'leaf' : 'inner';
}

sub part_of
{
	my ($page, $at) = @_;
	my ($kind, $lower, $upper) = (kind_of($page), unpack 'x12 S S', $page);
	return 'unused bytes' if $at < 12 || $at >= $lower && $at < $upper;
	return 'meta page' if $kind eq 'meta';
	return 'header' if $at < 64;
	return 'fences' if $at < 128;
	return 'in-page root' if $at < 128 + 64 * ord substr $page, 34, 1;
	return 'special space' if $at >= $page_size - 8;
	# Codes above those of exact lanes are byte strings': the fences are the page's last cells.
	my @cells = grep { $_ } unpack 'x66 S x6 S', $page;
	my ($lowest) = sort { $a <=> $b } @cells;
	return 'fences' if $upper < $page_size - 8 && defined $lowest && $at >= $lowest;
	return $kind eq 'leaf' ? 'leaf entries' : 'inner entries';
}

# A byte somewhere in a page of any kind; headers and in-page roots as often as all that follows them.
sub damage_byte
{
	my ($change, @pages) = @_;
	my %by_kind;
	push @{ $by_kind{ kind_of($pages[$_]) } }, $_ for 0 .. $#pages;
	# The meta page is as likely as any other.
	my @kinds = grep { $_ eq 'leaf' || $_ eq 'inner' } sort keys %by_kind;
	my @blocks = rand() < 0.1 ? (0) : @{ $by_kind{ $kinds[ rand @kinds ] } };
	my $block = $blocks[ rand @blocks ];
	my ($at, $part);
	do {
		$at = 10 + int rand(rand() < 0.5 ? 250 : $page_size - 10);
		$part = part_of($pages[$block], $at);
	} while ($part eq 'unused bytes' && rand() < 0.95);
	my $byte = substr $pages[$block], $at, 1;
	substr($pages[$block], $at, 1) = $change->($byte);
	return ($part, @pages);
}

# Each says what was damaged, and what the file holds then. Given are the index's pages, those it had earlier, and those of
# another index.
my %foreign;
my @damages = (
	(sub { damage_byte(sub { chr(ord($_[0]) ^ 1 << int rand 8) }, @{ $_[0] }) }) x 20,
	(sub { damage_byte(sub { chr((ord($_[0]) + (rand() < 0.5 ? 1 : 255)) % 256) }, @{ $_[0] }) }) x 12,
	(sub { damage_byte(sub { chr int rand 256 }, @{ $_[0] }) }) x 8,
	(sub { my @p = @{ $_[0] }; $p[ rand @p ] = "\0" x $page_size; ('zeroed page', @p) }) x 2,
	# Torn: a part is old and the rest new. Half of it is never written, for the rest of the page is zero.
	(sub {
		my ($pages, $earlier) = @_;
		my @p = @$pages;
		my $block = int rand(@$earlier < @p ? @$earlier : @p);
		my $from = (512, 1024, 4096, 7680)[ rand 4 ];
		my ($first, $second) = rand() < 0.5 ? ($p[$block], $earlier->[$block]) : ($earlier->[$block], $p[$block]);
		$p[$block] = substr($first, 0, $from) . substr($second, $from);
		('torn page', @p);
	}) x 4,
	sub { my @p = @{ $_[0] }; my $block = int rand @p; substr($p[$block], 4096) = "\0" x 4096; ('second half zeroed', @p) },
	(sub { my ($pages, $earlier) = @_; my @p = @$pages; my $block = int rand(@$earlier < @p ? @$earlier : @p); $p[$block] = $earlier->[$block]; ('stale page', @p) }) x 2,
	(sub { my @p = @{ $_[0] }; my ($a, $b) = (int rand @p, int rand @p); @p[ $a, $b ] = @p[ $b, $a ]; ('swapped pages', @p) }) x 2,
	(sub { my @p = @{ $_[0] }; $p[ rand @p ] = $p[ rand @p ]; ('another page of the index', @p) }) x 2,
	(sub { my ($pages, undef, $other) = @_; my @p = @$pages; my $block = int rand @p; $p[$block] = $other->[$block % @$other]; ('page of another index', @p) }) x 2,
	sub { my ($pages, undef, $other) = @_; ('meta page of another index', $other->[0], @$pages[ 1 .. $#$pages ]) },
	sub { my ($pages, undef, $other) = @_; ('all but meta page of another index', $pages->[0], @$other[ 1 .. $#$other ]) },
	sub { ('file of a btree index', pages($foreign{ $_[3] }{btree})) },
	sub { ('file of a table', pages($foreign{ $_[3] }{heap})) },
	sub { my @p = @{ $_[0] }; ('file cut short', @p[ 0 .. rand(@p) - 1 ]) },
	sub { my $bytes = join '', @{ $_[0] }; ('file cut within a page', substr $bytes, 0, rand length $bytes) },
	sub { ('file with a part of a page more', @{ $_[0] }, 'x' x 5000) },
	sub { my @p = @{ $_[0] }; ('file with pages more', @p, ("\0" x $page_size) x 2, $p[2]) },
	sub { ('earlier file', @{ $_[1] }) });
for my $name (keys %kind)
{
	$foreign{$name} = { btree => contents("$now/$file{\"foreign_$name\"}"), heap => contents("$now/$file{\"${name}_1\"}") };
}

# Where a read cannot always tell without checksums: a row's own place or key, and what in part or wholly once was right.
# fpbtree_check tells of all but the first two.
my %may_be_wrong = map { $_ => 1 } 'leaf entries', 'earlier file';
my %may_be_silent = (%may_be_wrong, map { $_ => 1 } 'stale page', 'torn page', 'second half zeroed');
my (%tally, @bad);
my ($tried, $turn) = (0, 0);

sub round
{
	my ($name) = @_;
	system_or_bail('rm', '-rf', $base);
	system_or_bail('cp', '-a', $now, $base);
	my $has_checksums = $name eq 'checksums';
	system_or_bail('pg_checksums', '--enable', '--no-sync', '-D', $node->data_dir) if $has_checksums;
	my %what;
	for my $number (0 .. $#tables)
	{
		my ($table, $kind) = @{ $tables[$number] }{qw(name kind)};
		my $path = "$base/$file{\"${table}_idx\"}";
		my $other = $number % $kind{$kind}{count} == 0 ? 2 : 1;
		my @pages = map { [ pages(contents($_)) ] } $path, "$earlier/$file{\"${table}_idx\"}", "$now/$file{\"${kind}_${other}_idx\"}";
		my ($what, @damaged) = $damages[ $turn++ % @damages ]->(@pages, $kind);
		my $bytes = join '', @damaged;
		next if $bytes eq join '', @{ $pages[0] };
		$what{$table} = $what;
		open my $f, '>:raw', $path or die "$path: $!";
		print $f $bytes;
		close $f or die "$path: $!";
	}
	$node->start;
	my $begin = -s $node->logfile;
	my %seen;
	my $script = "\\set VERBOSITY sqlstate\n" . join '', map {
		my ($table, $name) = ($_->{name}, $_->{kind});
		my $kind = $kind{$name};
		exists $what{$table} ? qq{SELECT '$table', step, translate(result, E'|\\n', '  ') FROM probe('$table', '$name', '$kind->{column}', \$\$$kind->{value}\$\$, \$\$$kind->{missing}\$\$);
SELECT '$table', step, translate(result, E'|\\n', '  ') FROM change('$table', \$\$$kind->{more}\$\$);
VACUUM (INDEX_CLEANUP on) $table;
SELECT '$table', 'after', try('SELECT count(*) FROM $table WHERE $kind->{column} IS NOT NULL', 'index');\n} : ''
	} @tables;
	my ($status, $out, $err) = $node->psql('postgres', $script, on_error_stop => 0);
	isnt($status, 2, "$name: the server lives");
	my @strange = grep { /ERROR|FATAL|PANIC|server closed/ && !/ERROR: +(XX00[12]|0A000)$/ } split /\n/, $err;
	is(join("\n", grep { defined } @strange[ 0 .. 9 ]), '', "$name: nothing but corruption is reported by VACUUM");
	push @{ $seen{ $_->[0] }{ $_->[1] } }, $_->[2] for map { [ split /\|/, $_, 3 ] } split /\n/, $out;
	is(scalar(keys %seen), scalar(keys %what), "$name: every index was tried");
	for my $table (sort keys %seen)
	{
		my ($what, %steps) = ($what{$table}, %{ $seen{$table} });
		my $tally = $tally{ $has_checksums ? 'with checksums' : $what } //= { map { $_ => 0 } qw(tried refused silent unknown) };
		my @wrong = grep { /^wrong/ } @{ $steps{read} };
		my $quiet = $steps{check}[0] eq 'none';
		$tried++;
		$tally->{tried}++;
		$tally->{refused}++ if grep { /^ERROR/ } @{ $steps{read} };
		$tally->{silent}++ if @wrong;
		$tally->{unknown}++ if @wrong && $quiet;
		push @bad, "$name $table $what: check finds nothing, but: $wrong[0]" if @wrong && $quiet && !$may_be_wrong{$what};
		push @bad, "$name $table $what: $wrong[0]" if @wrong && ($has_checksums || !$may_be_silent{$what});
		for my $error (grep { /^ERROR/ } map { @$_ } values %steps)
		{
			# The server's own say no more than the file and the block.
			my $is_ours = $error =~ /^ERROR (?:XX002|0A000) index "${table}_idx" (?:block \d+|has format \d+).*REINDEX/;
			my $is_its = $error =~ /^ERROR XX001 (?:invalid page in block \d+ of relation|could not read block \d+ in file)/;
			# Nor does what the table says of a row that is not there, when room is made in a leaf.
			my $is_tables = $error =~ /^ERROR XX002 heap tid from index tuple .* in index "${table}_idx"/;
			push @bad, "$name $table $what: $error" unless $is_ours || $is_its || $is_tables;
		}
	}
	server_is_clean($node, $name, $begin);
	$node->safe_psql('postgres', join ';', map { "REINDEX INDEX $_->{name}_idx" } @tables[ 0, 80, 150, 200 ]);
	is_sound($node, "$name, rebuilt", map { "$_->{name}_idx" } @tables[ 0, 80, 150, 200 ]);
	$node->stop;
	return;
}

srand 15;
round("round $_") for 1 .. $rounds;
round('checksums');
diag(sprintf '%-36s %5d tried, %5d told by a read, %4d not, %4d nor by the check', $_, @{ $tally{$_} }{qw(tried refused silent unknown)}) for sort keys %tally;
is(join("\n", grep { defined } @bad[ 0 .. 19 ]), '', 'what is wrong is told, and where');
my $silent = 0;
$silent += $tally{$_}{silent} for grep { !$may_be_silent{$_} } keys %tally;
diag("$tried damaged indexes, 0 crashes, 0 hangs, $silent silent wrong answers");
cmp_ok($tried, '>=', 1800, 'as many were tried');
done_testing();
