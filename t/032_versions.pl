# Versions of the extension: ALTER EXTENSION UPDATE makes of an earlier one exactly what CREATE EXTENSION makes, indexes go
# on meanwhile, and the library says which version it is. On 18, the extension in a place of its own.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Basename;
use File::Copy;
use File::Path 'make_path';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use FpbtreeTest;

my $here = dirname(abs_path($INC{'FpbtreeTest.pm'}));

sub directory
{
	my ($name) = @_;
	chomp(my $path = `pg_config --$name`);
	return $path;
}

# An installation that has the scripts given besides, or instead nothing of fpbtree: a copy of the programs, because they
# find the rest from where they are, and links to all else.
sub installation
{
	my ($is_kept, @scripts) = @_;
	my $top = PostgreSQL::Test::Utils::tempdir;
	my ($bin, $share, $library) = map { directory($_) } 'bindir', 'sharedir', 'pkglibdir';
	make_path("$top$bin", "$top$share/extension", "$top$library");
	for my $program (glob "$bin/*")
	{
		my $copy = "$top$bin/" . basename($program);
		copy($program, $copy) or die "$copy: $!";
		chmod 0755, $copy;
	}
	# The programs of 16's package find their libraries from where they are, too.
	my $libraries = dirname(dirname(dirname($bin))) . '/pgserver.libs';
	symlink $libraries, "$top$libraries" if -d $libraries;
	# First, so that they are taken even if an older installation has left such a script.
	symlink $_, "$top$share/extension/" . basename($_) for @scripts;
	symlink $_, "$top$_" for grep { $is_kept || !/fpbtree/ } glob("$library/*"), glob("$share/extension/*");
	symlink $_, "$top$_" for grep { basename($_) ne 'extension' } glob "$share/*";
	return dirname("$top$bin");
}

my $node = PostgreSQL::Test::Cluster->new('versions', install_path => installation(1, "$here/fpbtree--0.1.0.sql"));
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;
my $current = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'fpbtree'});

# All that a dump can tell of the extension, but for numbers that are given as objects are made.
sub dumped
{
	my ($database) = @_;
	my ($dump, $err);
	IPC::Run::run([ 'pg_dump', '-h', $node->host, '-p', $node->port, '--binary-upgrade', '--schema-only', $database ], '<', \undef, '>', \$dump, '2>', \$err)
	  or die $err;
	return join '', grep { !/binary_upgrade_set_next|^\\(un)?restrict / } split /^/, $dump;
}

# What depends on what.
my $dependencies = q{
	SELECT pg_describe_object(classid, objid, objsubid), deptype, pg_describe_object(refclassid, refobjid, refobjsubid)
	FROM pg_depend
	WHERE objid >= 16384 OR refobjid >= 16384
	ORDER BY 1, 2, 3};

$node->safe_psql('postgres', "CREATE DATABASE $_") for 'fresh', 'updated', 'used';
$node->safe_psql('fresh', 'CREATE EXTENSION fpbtree');
$node->safe_psql('updated', q{CREATE EXTENSION fpbtree VERSION '0.1.0'});
isnt(dumped('updated'), dumped('fresh'), 'the earlier version is another one');
$node->safe_psql('updated', 'ALTER EXTENSION fpbtree UPDATE');
my @differences = difference(dumped('fresh'), dumped('updated'));
is(join('', @differences), '', 'a dump of an updated database is that of a new one');
like(dumped('updated'), qr/binary_upgrade_create_empty_extension\('fpbtree', 'public', false, '\Q$current\E'/, 'of this version');
# A view's row types come with it.
my $members = q{SELECT count(*) FROM pg_depend JOIN pg_extension e ON (refclassid, refobjid) = ('pg_extension'::regclass, e.oid) WHERE deptype = 'e' AND extname = 'fpbtree' AND classid <> 'pg_type'::regclass};
is(scalar(() = dumped('updated') =~ /^ALTER EXTENSION fpbtree ADD /mg), $node->safe_psql('updated', $members), 'with all its members');
like(dumped('updated'), qr/^REVOKE ALL ON FUNCTION public\.fpbtree_mirror\(.*\) FROM PUBLIC;$/m, 'and privileges');
is(join('', difference(map { $node->safe_psql($_, $dependencies) } 'fresh', 'updated')), '', 'and so are its dependencies');
cmp_ok($node->safe_psql('updated', "SELECT count(*) FROM ($dependencies) d"), '>', 600, 'all of them');

# Lines that only one of two texts has.
sub difference
{
	my ($old, $new) = @_;
	my %lines;
	$lines{$_}++ for split /\n/, $old;
	$lines{$_}-- for split /\n/, $new;
	return map { ($lines{$_} > 0 ? '-' : '+') . "$_\n" } grep { $lines{$_} != 0 } sort keys %lines;
}

# Indexes made under the earlier version; functions that have changed are refused until the update.
$node->safe_psql('used', <<'SQL');
CREATE EXTENSION fpbtree VERSION '0.1.0';
CREATE TABLE rows AS SELECT i AS id, 'text ' || i AS t FROM generate_series(1, 3000) i;
CREATE UNIQUE INDEX number ON rows USING fpbtree (id);
CREATE INDEX words ON rows USING fpbtree (t) INCLUDE (id);
SQL
my $answers = q{SET enable_seqscan = off; SELECT count(*), sum(id) FROM rows WHERE id BETWEEN 100 AND 1999; SELECT id FROM rows WHERE t = 'text 77';
	SELECT count(*) FROM (SELECT * FROM fpbtree_check('number', true) UNION ALL SELECT * FROM fpbtree_check('words', true)) c};
my $right = "1900|1994050\n77\n0";
is($node->safe_psql('used', $answers), $right, 'indexes under the earlier version');
my ($status, $out, $err) = $node->psql('used', q{SELECT * FROM fpbtree_stats('number')});
like($err, qr/ERROR:  the function has other columns in this version of fpbtree\nHINT:  Please ALTER EXTENSION fpbtree UPDATE\./, 'a function that has changed');
$node->safe_psql('used', 'ALTER EXTENSION fpbtree UPDATE');
is($node->safe_psql('used', $answers), $right, 'and after the update');
is($node->safe_psql('used', q{SELECT entries, thin_pages FROM fpbtree_stats('number')}), '3000|0', 'the function, too');
$node->safe_psql('used', "INSERT INTO rows SELECT i, 'text ' || i FROM generate_series(3001, 6000) i; DELETE FROM rows WHERE id > 3000");
$node->safe_psql('used', 'VACUUM rows');
is($node->safe_psql('used', $answers), $right, 'and after changes');
$node->safe_psql('used', 'DROP EXTENSION fpbtree CASCADE');
is($node->safe_psql('used', q{SELECT count(*) FROM pg_class WHERE relname IN ('number', 'words')}), '0', 'it goes with its indexes');

if ($node->pg_version->major >= 18)
{
	is($node->safe_psql('fresh', q{LOAD 'fpbtree'; SELECT module_name, version FROM pg_get_loaded_modules() WHERE file_name = 'fpbtree.so'}),
		"fpbtree|$current", 'the library says its name and version');
	in_its_own_place();
}
server_is_clean($node, 'versions');
$node->stop;
done_testing();

# Beside an installation that has nothing of fpbtree, as an image of an extension is.
sub in_its_own_place
{
	my $place = PostgreSQL::Test::Utils::tempdir;
	make_path("$place/lib", "$place/share/extension");
	copy(directory('pkglibdir') . '/fpbtree.so', "$place/lib");
	copy($_, "$place/share/extension") for glob directory('sharedir') . '/extension/fpbtree*';
	my $bare = PostgreSQL::Test::Cluster->new('bare', install_path => installation(0));
	$bare->init;
	$bare->start;
	my ($status, $out, $err) = $bare->psql('postgres', 'CREATE EXTENSION fpbtree');
	like($err, qr/extension "fpbtree" is not available/, 'it is not installed');
	for my $preloaded ('', 'fpbtree')
	{
		$bare->append_conf('postgresql.conf', <<"CONF");
extension_control_path = '\$system:$place/share'
dynamic_library_path = '\$libdir:$place/lib'
shared_preload_libraries = '$preloaded'
CONF
		$bare->restart;
		$bare->safe_psql('postgres', 'CREATE EXTENSION fpbtree; CREATE TABLE rows AS SELECT i AS id FROM generate_series(1, 3000) i; CREATE INDEX number ON rows USING fpbtree (id)');
		is($bare->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM rows WHERE id < 100; SELECT log FROM fpbtree_stats('number')}),
			$preloaded ? "99\nown" : "99\ngeneric", "from its own place: preloaded '$preloaded'");
		is_sound($bare, "preloaded '$preloaded'", 'number');
		$bare->safe_psql('postgres', 'DROP EXTENSION fpbtree CASCADE; DROP TABLE rows');
	}
	$bare->stop;
	return;
}
