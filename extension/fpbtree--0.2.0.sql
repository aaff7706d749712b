/* fpbtree 0.2.0: the access method, its operator classes and its functions. */

\echo Use "CREATE EXTENSION fpbtree" to load this file. \quit

CREATE FUNCTION fpbtree_handler(pg_catalog.internal)
RETURNS pg_catalog.index_am_handler
LANGUAGE c
AS 'MODULE_PATHNAME', 'fpbtree_handler';

COMMENT ON FUNCTION fpbtree_handler(pg_catalog.internal) IS 'fpbtree index access method handler';

CREATE ACCESS METHOD fpbtree TYPE INDEX HANDLER fpbtree_handler;

COMMENT ON ACCESS METHOD fpbtree IS 'disk-first fractal prefetching B+-tree index access method';

/*
 * Operator families: copies of btree's, under the same names in the same schemas, every member of them. Half a family
 * would not only do less: on PostgreSQL 18 it would make plans of btree indexes worse. What the server knows of btree is
 * read from its own catalogs, so the copies are complete on every version, and of any extension.
 *
 * These functions find what they name in pg_catalog alone: no other schema can interfere.
 */
CREATE FUNCTION fpbtree_missing_members(family pg_catalog.oid)
RETURNS TABLE (lefttype pg_catalog.oid, righttype pg_catalog.oid, member pg_catalog.text)
LANGUAGE sql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $missing$
    WITH copy AS (
        SELECT c.oid
        FROM pg_opfamily f
            JOIN pg_opfamily c ON (c.opfname, c.opfnamespace) = (f.opfname, f.opfnamespace)
            JOIN pg_am a ON a.oid = c.opfmethod
        WHERE f.oid = family AND a.amname = 'fpbtree'
    )
    SELECT o.amoplefttype, o.amoprighttype, format('OPERATOR %s %s', o.amopstrategy, o.amopopr::regoperator)
    FROM pg_amop o
    WHERE o.amopfamily = family
        AND NOT EXISTS (
            SELECT FROM pg_amop m
            WHERE m.amopfamily = (TABLE copy)
                AND (m.amoplefttype, m.amoprighttype, m.amopstrategy, m.amopopr)
                    = (o.amoplefttype, o.amoprighttype, o.amopstrategy, o.amopopr))
    UNION ALL
    /* With the types: only for btree does the server find them out by itself. */
    SELECT f.amproclefttype, f.amprocrighttype,
        format('FUNCTION %s (%s, %s) %s', f.amprocnum,
            f.amproclefttype::regtype, f.amprocrighttype::regtype, f.amproc::oid::regprocedure)
    FROM pg_amproc f
    WHERE f.amprocfamily = family
        AND NOT EXISTS (
            SELECT FROM pg_amproc m
            WHERE m.amprocfamily = (TABLE copy)
                AND (m.amproclefttype, m.amprocrighttype, m.amprocnum, m.amproc::oid)
                    = (f.amproclefttype, f.amprocrighttype, f.amprocnum, f.amproc::oid))
$missing$;

COMMENT ON FUNCTION fpbtree_missing_members(pg_catalog.oid) IS
    'what fpbtree''s copy of a btree operator family lacks, as ALTER OPERATOR FAMILY ... ADD takes it';

CREATE FUNCTION fpbtree_mirror(family pg_catalog.oid)
RETURNS TABLE (kind pg_catalog.text, name pg_catalog.text, action pg_catalog.text)
LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp
AS $mirror$
DECLARE
    method CONSTANT oid := (SELECT a.oid FROM pg_am a WHERE a.amname = 'fpbtree');
    original pg_opfamily;
    class record;
    members text;
BEGIN
    SELECT f.* INTO STRICT original FROM pg_opfamily f WHERE f.oid = family;
    kind := 'operator family';
    name := format('%s.%I', original.opfnamespace::regnamespace, original.opfname);

    IF NOT EXISTS (
        SELECT FROM pg_opfamily f
        WHERE (f.opfmethod, f.opfname, f.opfnamespace) = (method, original.opfname, original.opfnamespace))
    THEN
        EXECUTE format('CREATE OPERATOR FAMILY %s USING fpbtree', name);
        action := 'created';
    ELSIF EXISTS (SELECT FROM @extschema@.fpbtree_missing_members(family)) THEN
        action := 'extended';
    END IF;
    IF action IS NOT NULL THEN
        RETURN NEXT;
    END IF;

    /* The classes, each with the members that are about its own type alone. STORAGE is there for a class without any. */
    FOR class IN
        SELECT format('%s.%I', c.opcnamespace::regnamespace, c.opcname) AS name,
            CASE WHEN c.opcdefault THEN 'DEFAULT' END AS is_default,
            c.opcintype AS type,
            coalesce(nullif(c.opckeytype, 0), c.opcintype)::regtype AS storage
        FROM pg_opclass c
        WHERE c.opcfamily = family
            AND NOT EXISTS (
                SELECT FROM pg_opclass m
                WHERE (m.opcmethod, m.opcname, m.opcnamespace) = (method, c.opcname, c.opcnamespace))
        ORDER BY c.oid
    LOOP
        SELECT concat_ws(', ', 'STORAGE ' || class.storage, string_agg(m.member, ', '))
        INTO members
        FROM @extschema@.fpbtree_missing_members(family) m
        WHERE m.lefttype = class.type AND m.righttype = class.type;
        EXECUTE format('CREATE OPERATOR CLASS %s %s FOR TYPE %s USING fpbtree FAMILY %s AS %s',
            class.name, class.is_default, class.type::regtype, name, members);
        RETURN QUERY VALUES ('operator class', class.name, 'created');
    END LOOP;

    /* The rest: members about two types, and what a family has gained since. */
    SELECT string_agg(m.member, ', ') INTO members FROM @extschema@.fpbtree_missing_members(family) m;
    IF members IS NOT NULL THEN
        EXECUTE format('ALTER OPERATOR FAMILY %s USING fpbtree ADD %s', name, members);
    END IF;
END
$mirror$;

COMMENT ON FUNCTION fpbtree_mirror(pg_catalog.oid) IS
    'copies a btree operator family and its classes to fpbtree, or what the copy lacks; see fpbtree_adopt()';

/* What fpbtree_adopt() is made of. */
REVOKE EXECUTE ON FUNCTION fpbtree_missing_members(pg_catalog.oid), fpbtree_mirror(pg_catalog.oid) FROM PUBLIC;

CREATE FUNCTION fpbtree_adopt(VARIADIC names pg_catalog.text[] DEFAULT '{}')
RETURNS TABLE (kind pg_catalog.text, name pg_catalog.text, action pg_catalog.text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $adopt$
DECLARE
    families oid[];
    wanted text;
    parts text[];
    found oid[];
    family oid;
BEGIN
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'permission denied to adopt operator classes',
            HINT = 'Only a superuser can create operator classes.';
    END IF;
    IF names IS NULL OR array_position(names, NULL) IS NOT NULL THEN
        RAISE null_value_not_allowed USING
            MESSAGE = 'names of operator classes must not be null',
            HINT = 'Call fpbtree_adopt() without arguments to adopt everything.';
    END IF;

    IF names = '{}' THEN
        SELECT array_agg(f.oid ORDER BY f.oid) INTO families
        FROM pg_opfamily f
            JOIN pg_am a ON a.oid = f.opfmethod
        WHERE a.amname = 'btree' AND NOT pg_is_other_temp_schema(f.opfnamespace);
    END IF;

    FOREACH wanted IN ARRAY names LOOP
        parts := parse_ident(wanted);
        IF cardinality(parts) > 2 THEN
            RAISE invalid_name USING
                MESSAGE = format('improper operator class name "%s"', wanted),
                HINT = 'Write the class, or its schema and the class: public.citext_ops.';
        END IF;
        /* A family by the name of one of its classes, or by its own. */
        SELECT array_agg(DISTINCT f.oid) INTO found
        FROM pg_opfamily f
            JOIN pg_am a ON a.oid = f.opfmethod
            CROSS JOIN LATERAL (
                SELECT f.opfnamespace, f.opfname
                UNION ALL
                SELECT c.opcnamespace, c.opcname FROM pg_opclass c WHERE c.opcfamily = f.oid
            ) AS known (schema, name)
            JOIN pg_namespace n ON n.oid = known.schema
        WHERE a.amname = 'btree'
            AND parts IN (ARRAY[known.name::text], ARRAY[n.nspname::text, known.name::text]);
        IF found IS NULL THEN
            RAISE undefined_object USING
                MESSAGE = format('operator class or family "%s" does not exist for access method "btree"', wanted),
                HINT = 'Only what btree has can be adopted: \dAc btree lists its classes in psql.';
        ELSIF cardinality(found) > 1 THEN
            RAISE ambiguous_function USING
                MESSAGE = format('operator class name "%s" is not unique', wanted),
                DETAIL = format('Operator families of that name or with such a class: %s.',
                    (SELECT string_agg(format('%s.%I', f.opfnamespace::regnamespace, f.opfname), ', ' ORDER BY f.oid)
                     FROM pg_opfamily f WHERE f.oid = ANY (found))),
                HINT = 'Put its schema before it.';
        END IF;
        families := families || found;
    END LOOP;

    FOREACH family IN ARRAY families LOOP
        RETURN QUERY SELECT * FROM @extschema@.fpbtree_mirror(family);
    END LOOP;
END
$adopt$;

COMMENT ON FUNCTION fpbtree_adopt(pg_catalog.text[]) IS
    'gives fpbtree the btree operator classes named, or all it lacks: one row for each family and class made or extended';

/* All that comes with the server. */
SELECT pg_catalog.count(mirrored.*)
FROM pg_catalog.pg_opfamily f
    JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) f.opfmethod
    CROSS JOIN LATERAL @extschema@.fpbtree_mirror(f.oid) AS mirrored
WHERE a.amname OPERATOR(pg_catalog.=) 'btree'
    AND f.opfnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace;

/*
 * Classes that users have added to these families are theirs, as if fpbtree_adopt() had made them: a dump has them, and
 * their types can be dropped without the extension.
 */
DO $release$
DECLARE
    class pg_catalog.text;
BEGIN
    FOR class IN
        SELECT pg_catalog.format('%I.%I', n.nspname, c.opcname)
        FROM pg_catalog.pg_opclass c
            JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.opcnamespace
            JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.opcmethod
        WHERE a.amname OPERATOR(pg_catalog.=) 'fpbtree' AND n.nspname OPERATOR(pg_catalog.<>) 'pg_catalog'
    LOOP
        EXECUTE pg_catalog.format('ALTER EXTENSION fpbtree DROP OPERATOR CLASS %s USING fpbtree', class);
    END LOOP;
END
$release$;

/* The functions check privileges themselves: which are needed depends on the index. */

CREATE FUNCTION fpbtree_check(index pg_catalog.regclass, heapallindexed pg_catalog.bool DEFAULT false)
RETURNS TABLE (block pg_catalog.int8, what pg_catalog.text, detail pg_catalog.text)
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_check_wrapper';

COMMENT ON FUNCTION fpbtree_check(pg_catalog.regclass, pg_catalog.bool) IS
    'what is wrong with an fpbtree index, one row for each finding; for its owner and superusers';

CREATE FUNCTION fpbtree_stats(index pg_catalog.regclass)
RETURNS TABLE (
    levels pg_catalog.int4,
    leaf_pages pg_catalog.int8,
    inner_pages pg_catalog.int8,
    deleted_pages pg_catalog.int8,
    thin_pages pg_catalog.int8,
    entries pg_catalog.int8,
    dead_entries pg_catalog.int8,
    bytes_per_entry pg_catalog.float8,
    fill pg_catalog.float8,
    leaf_widths pg_catalog.text,
    inner_widths pg_catalog.text,
    log pg_catalog.text
)
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_stats_wrapper';

COMMENT ON FUNCTION fpbtree_stats(pg_catalog.regclass) IS
    'the shape of an fpbtree index, for those who may SELECT from its table';

CREATE FUNCTION fpbtree_page(index pg_catalog.regclass, block pg_catalog.int8)
RETURNS TABLE (
    type pg_catalog.text,
    level pg_catalog.int4,
    entries pg_catalog.int4,
    dead_entries pg_catalog.int4,
    nodes pg_catalog.int4,
    free_bytes pg_catalog.int4,
    fill pg_catalog.float8,
    lane_bytes pg_catalog.int4,
    lane_widths pg_catalog.int4[],
    pointer_widths pg_catalog.int4[],
    left_sibling pg_catalog.int8,
    right_sibling pg_catalog.int8,
    low_fence pg_catalog.text,
    high_fence pg_catalog.text,
    flags pg_catalog.text[]
)
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_page_wrapper';

COMMENT ON FUNCTION fpbtree_page(pg_catalog.regclass, pg_catalog.int8) IS
    'what a page of an fpbtree index is and has, for the index''s owner and superusers';

CREATE FUNCTION fpbtree_entries(index pg_catalog.regclass, block pg_catalog.int8)
RETURNS TABLE (
    number pg_catalog.int4,
    node pg_catalog.int4,
    tid pg_catalog.tid,
    child pg_catalog.int8,
    dead pg_catalog.bool,
    columns pg_catalog.text[],
    bytes pg_catalog.int4,
    data pg_catalog.text
)
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_entries_wrapper';

COMMENT ON FUNCTION fpbtree_entries(pg_catalog.regclass, pg_catalog.int8) IS
    'the entries of a page of an fpbtree index, for the index''s owner and superusers';

CREATE FUNCTION fpbtree_picture(index pg_catalog.regclass, block pg_catalog.int8)
RETURNS pg_catalog.text
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_picture_wrapper';

COMMENT ON FUNCTION fpbtree_picture(pg_catalog.regclass, pg_catalog.int8) IS
    'a page of an fpbtree index drawn as SVG, for the index''s owner and superusers';

CREATE FUNCTION fpbtree_map(index pg_catalog.regclass)
RETURNS pg_catalog.text
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_map_wrapper';

COMMENT ON FUNCTION fpbtree_map(pg_catalog.regclass) IS
    'the pages of an fpbtree index by level and fill drawn as SVG, for those who may SELECT from its table';

CREATE FUNCTION fpbtree_stat_prefetch(index pg_catalog.regclass)
RETURNS TABLE (
    requested pg_catalog.int8,
    cached pg_catalog.int8,
    used pg_catalog.int8,
    wasted pg_catalog.int8
)
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_prefetch_wrapper';

COMMENT ON FUNCTION fpbtree_stat_prefetch(pg_catalog.regclass) IS
    'pages of index and table that this session''s scans of an fpbtree index have asked for ahead, '
    'for those who may SELECT from its table';

CREATE FUNCTION fpbtree_stat_compare(index pg_catalog.regclass)
RETURNS TABLE (
    calls pg_catalog.int8,
    guesses pg_catalog.int8,
    wrong_guesses pg_catalog.int8
)
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_compare_wrapper';

COMMENT ON FUNCTION fpbtree_stat_compare(pg_catalog.regclass) IS
    'calls of comparison functions by this session''s use of an fpbtree index, and places in pages that it has '
    'guessed instead, for those who may SELECT from its table';

CREATE FUNCTION fpbtree_stat_hot(index pg_catalog.regclass)
RETURNS TABLE (
    hits pg_catalog.int8,
    misses pg_catalog.int8,
    stale pg_catalog.int8,
    evictions pg_catalog.int8,
    bytes pg_catalog.int8,
    key_hits pg_catalog.int8,
    key_misses pg_catalog.int8,
    key_stale pg_catalog.int8,
    key_evictions pg_catalog.int8,
    key_bytes pg_catalog.int8
)
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_hot_wrapper';

COMMENT ON FUNCTION fpbtree_stat_hot(pg_catalog.regclass) IS
    'how this session''s lookups in an fpbtree index have found its leaves, and the rows of its hot keys, '
    'for those who may SELECT from its table';

CREATE FUNCTION fpbtree_stat_hot_reset(index pg_catalog.regclass)
RETURNS pg_catalog.void
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_hot_reset_wrapper';

COMMENT ON FUNCTION fpbtree_stat_hot_reset(pg_catalog.regclass) IS
    'lets fpbtree_stat_hot count an fpbtree index from zero again, for those who may SELECT from its table';

/* Index 0 is the database itself: zeros, and when it was reset. There is no row where nothing is counted. */
CREATE FUNCTION fpbtree_stat_counts()
RETURNS TABLE (
    index pg_catalog.oid,
    hits pg_catalog.int8,
    misses pg_catalog.int8,
    stale pg_catalog.int8,
    key_hits pg_catalog.int8,
    key_misses pg_catalog.int8,
    key_stale pg_catalog.int8,
    prefetch_requested pg_catalog.int8,
    prefetch_cached pg_catalog.int8,
    prefetch_used pg_catalog.int8,
    prefetch_wasted pg_catalog.int8,
    leaf_splits pg_catalog.int8,
    inner_splits pg_catalog.int8,
    leaves_merged pg_catalog.int8,
    leaves_deleted pg_catalog.int8,
    batches pg_catalog.int8,
    batch_entries pg_catalog.int8,
    compare_calls pg_catalog.int8,
    compare_guesses pg_catalog.int8,
    compare_wrong_guesses pg_catalog.int8,
    stats_reset pg_catalog.timestamptz
)
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_counts_wrapper';

COMMENT ON FUNCTION fpbtree_stat_counts() IS
    'what all sessions have counted for fpbtree indexes of the database; see pg_stat_fpbtree';

CREATE FUNCTION fpbtree_stat_room()
RETURNS TABLE (
    indexes pg_catalog.int4,
    most pg_catalog.int4,
    refused pg_catalog.int8
)
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_room_wrapper';

COMMENT ON FUNCTION fpbtree_stat_room() IS
    'how many fpbtree indexes of all databases are counted in pg_stat_fpbtree and can be, and how often there was no room';

CREATE VIEW pg_stat_fpbtree AS
    WITH counted AS MATERIALIZED (SELECT * FROM @extschema@.fpbtree_stat_counts())
    SELECT x.indrelid AS relid, x.indexrelid, n.nspname AS schemaname, t.relname, c.relname AS indexrelname,
        coalesce(counted.hits, database.hits) AS hits,
        coalesce(counted.misses, database.misses) AS misses,
        coalesce(counted.stale, database.stale) AS stale,
        coalesce(counted.key_hits, database.key_hits) AS key_hits,
        coalesce(counted.key_misses, database.key_misses) AS key_misses,
        coalesce(counted.key_stale, database.key_stale) AS key_stale,
        coalesce(counted.prefetch_requested, database.prefetch_requested) AS prefetch_requested,
        coalesce(counted.prefetch_cached, database.prefetch_cached) AS prefetch_cached,
        coalesce(counted.prefetch_used, database.prefetch_used) AS prefetch_used,
        coalesce(counted.prefetch_wasted, database.prefetch_wasted) AS prefetch_wasted,
        coalesce(counted.leaf_splits, database.leaf_splits) AS leaf_splits,
        coalesce(counted.inner_splits, database.inner_splits) AS inner_splits,
        coalesce(counted.leaves_merged, database.leaves_merged) AS leaves_merged,
        coalesce(counted.leaves_deleted, database.leaves_deleted) AS leaves_deleted,
        coalesce(counted.batches, database.batches) AS batches,
        coalesce(counted.batch_entries, database.batch_entries) AS batch_entries,
        coalesce(counted.compare_calls, database.compare_calls) AS compare_calls,
        coalesce(counted.compare_guesses, database.compare_guesses) AS compare_guesses,
        coalesce(counted.compare_wrong_guesses, database.compare_wrong_guesses) AS compare_wrong_guesses,
        greatest(counted.stats_reset, database.stats_reset) AS stats_reset
    FROM pg_catalog.pg_index x
        JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) x.indexrelid
        JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
        JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) x.indrelid
        LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
        LEFT JOIN counted database ON database.index OPERATOR(pg_catalog.=) 0::pg_catalog.oid
        LEFT JOIN counted ON counted.index OPERATOR(pg_catalog.=) x.indexrelid
    WHERE a.amname OPERATOR(pg_catalog.=) 'fpbtree' AND c.relkind OPERATOR(pg_catalog.=) 'i';

COMMENT ON VIEW pg_stat_fpbtree IS
    'what all sessions have counted for each fpbtree index of the database, NULL where the library is not preloaded';

GRANT SELECT ON pg_stat_fpbtree TO PUBLIC;

CREATE FUNCTION fpbtree_stat_reset()
RETURNS pg_catalog.void
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_reset_wrapper';

CREATE FUNCTION fpbtree_stat_reset(index pg_catalog.regclass)
RETURNS pg_catalog.void
LANGUAGE c STRICT VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'fpbtree_stat_reset_index_wrapper';

COMMENT ON FUNCTION fpbtree_stat_reset() IS
    'lets pg_stat_fpbtree count all fpbtree indexes of the database from zero again';
COMMENT ON FUNCTION fpbtree_stat_reset(pg_catalog.regclass) IS
    'lets pg_stat_fpbtree count an fpbtree index from zero again';

REVOKE EXECUTE ON FUNCTION fpbtree_stat_reset(), fpbtree_stat_reset(pg_catalog.regclass) FROM PUBLIC;

CREATE FUNCTION fpbtree_exchange(old pg_catalog.regclass, new pg_catalog.regclass)
RETURNS pg_catalog.void
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_exchange_wrapper';

COMMENT ON FUNCTION fpbtree_exchange(pg_catalog.regclass, pg_catalog.regclass) IS
    'has an index take the place of one like it, constraint and foreign keys included, which is dropped; see fpbtree_migration()';

/*
 * Moving an index: one of the other method is built beside it under a temporary name, then the two exchange names. So the
 * temporary name always belongs to what can be dropped, whatever has failed: at first the new index, then the old one.
 * Where a constraint or foreign keys are tied to the old one (18 and later), the new one takes its place with them, and
 * the old one is dropped at once.
 *
 * A partitioned index moves with its partitions, as a tree; any other index is a tree of one.
 */
CREATE FUNCTION fpbtree_migration_tree(index pg_catalog.oid)
RETURNS TABLE (
    member pg_catalog.oid,
    parent pg_catalog.oid,
    level pg_catalog.int4,
    leaf pg_catalog.bool,
    relation pg_catalog.text,
    schema pg_catalog.text,
    name pg_catalog.name,
    temporary pg_catalog.name,
    tied pg_catalog.bool
)
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $tree$
    SELECT c.oid, p.parentrelid, coalesce(p.level, 0), c.relkind = 'i', format('%s.%I', s.schema, t.relname), s.schema,
        c.relname, 'fpbtree_migration_' || md5(c.relname),
        EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = c.oid AND o.contype IN ('p', 'u', 'f'))
    FROM (SELECT index UNION SELECT relid FROM pg_partition_tree(index)) AS members (oid)
        JOIN pg_class c ON c.oid = members.oid
        JOIN pg_index i ON i.indexrelid = c.oid
        JOIN pg_class t ON t.oid = i.indrelid
        LEFT JOIN pg_partition_tree(index) p ON p.relid = c.oid
        CROSS JOIN LATERAL (
            SELECT CASE c.relpersistence WHEN 't' THEN 'pg_temp' ELSE quote_ident(n.nspname) END
            FROM pg_namespace n
            WHERE n.oid = c.relnamespace
        ) AS s (schema)
$tree$;

COMMENT ON FUNCTION fpbtree_migration_tree(pg_catalog.oid) IS
    'an index and its partitions, each with its temporary name; see fpbtree_migration()';

CREATE FUNCTION fpbtree_migration_create(index pg_catalog.oid, method pg_catalog.name, name pg_catalog.name)
RETURNS pg_catalog.text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $create$
DECLARE
    known record;
    head text;
    tail text;
    columns text;
    parameters text;
BEGIN
    SELECT m.leaf, m.name, a.amname AS method, pg_get_indexdef(m.member) AS definition,
        CASE WHEN i.indisunique THEN 'UNIQUE ' END AS uniquely,
        CASE WHEN m.leaf THEN '' ELSE 'ONLY ' END || m.relation AS relation,
        ' WHERE ' || pg_get_expr(i.indpred, i.indrelid) AS predicate,
        /* Even if it is the database's, because of default_tablespace; but that is refused for a partitioned index. */
        (SELECT ' TABLESPACE ' || quote_ident(t.spcname)
         FROM pg_tablespace t
             JOIN pg_database d ON d.datname = current_database()
         WHERE t.oid = CASE WHEN m.leaf AND c.reltablespace = 0 THEN d.dattablespace ELSE c.reltablespace END) AS place
    INTO STRICT known
    FROM @extschema@.fpbtree_migration_tree(index) m
        JOIN pg_index i ON i.indexrelid = m.member
        JOIN pg_class c ON c.oid = m.member
        JOIN pg_am a ON a.oid = c.relam
    WHERE m.member = index;

    /* As pg_get_indexdef() writes them, what of them the other method has, and what a constraint's index has to have. */
    SELECT ' WITH (' || string_agg(o.parameter, ', ' ORDER BY o.n) FILTER (WHERE o.present) || ')',
        ' WITH (' || string_agg(o.parameter, ', ' ORDER BY o.n) FILTER (WHERE method = 'fpbtree' OR o.common) || ')'
    INTO tail, parameters
    FROM pg_class c
        CROSS JOIN LATERAL (
            SELECT true, option_name IN ('fillfactor', 'deduplicate_items'),
                format(CASE option_value WHEN quote_ident(option_value) THEN '%I=%s' ELSE '%I=%L' END,
                    option_name, option_value), n
            FROM ROWS FROM (pg_options_to_table(c.reloptions)) WITH ORDINALITY AS present (option_name, option_value, n)
            UNION ALL
            SELECT false, false, 'method=fpbtree', NULL
            FROM pg_constraint o
            WHERE o.conindid = c.oid AND o.contype IN ('p', 'u') AND known.method = 'btree'
        ) AS o (present, common, parameter, n)
    WHERE c.oid = index;

    /* Cut by its two ends, which are known to the letter: names and expressions may contain anything. */
    head := format('CREATE %sINDEX %I ON %s USING %I ', known.uniquely, known.name, known.relation, known.method);
    tail := concat(tail, known.predicate);
    columns := substr(known.definition, length(head) + 1, length(known.definition) - length(head) - length(tail));
    IF known.definition <> head || columns || tail THEN
        RAISE internal_error USING MESSAGE = format('unexpected definition of an index: %s', known.definition);
    END IF;
    RETURN format('CREATE %sINDEX %s%I ON %s USING %I ',
            known.uniquely, CASE WHEN known.leaf THEN 'CONCURRENTLY ' END, name, known.relation, method)
        || concat(columns, parameters, known.place, known.predicate);
END
$create$;

COMMENT ON FUNCTION fpbtree_migration_create(pg_catalog.oid, pg_catalog.name, pg_catalog.name) IS
    'the statement that creates the like of an index with a method, under a name; see fpbtree_migration()';

CREATE FUNCTION fpbtree_migration_refuse(index pg_catalog.oid, method pg_catalog.name)
RETURNS pg_catalog.void
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $refuse$
DECLARE
    why record;
    sharded regclass[];
BEGIN
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT array_agg(logicalrelid) FROM pg_catalog.pg_dist_partition' INTO sharded;
    END IF;
    SELECT r.* INTO why
    FROM @extschema@.fpbtree_migration_tree(index) m
        JOIN pg_class c ON c.oid = m.member
        JOIN pg_index i ON i.indexrelid = m.member
        LEFT JOIN LATERAL (
            SELECT quote_ident(o.conname) AS name, o.conrelid::regclass AS relation, o.contype
            FROM pg_constraint o
            WHERE o.conindid = m.member
            ORDER BY o.contype = 'f', o.conname
            LIMIT 1
        ) o ON true
        LEFT JOIN LATERAL (
            SELECT format('%I.%I', n.nspname, s.opcname) AS name
            FROM unnest(i.indclass) AS used (class)
                JOIN pg_opclass s ON s.oid = used.class
                JOIN pg_namespace n ON n.oid = s.opcnamespace
            WHERE NOT EXISTS (
                SELECT FROM pg_opclass l
                    JOIN pg_am a ON a.oid = l.opcmethod
                WHERE (a.amname, l.opcname, l.opcnamespace) = (method, s.opcname, s.opcnamespace))
            LIMIT 1
        ) missing ON true
        CROSS JOIN LATERAL (VALUES
            (1, NOT (i.indisvalid AND i.indisready AND i.indislive), 'object_not_in_prerequisite_state',
                format('index %s is invalid', m.member::regclass),
                'Drop it, or REINDEX it first.'),
            (2, c.relispartition AND m.level = 0, 'dependent_objects_still_exist',
                format('index %s is a partition of another one', m.member::regclass),
                format('Move %s, which takes its partitions along.', pg_partition_root(m.member))),
            (0, i.indrelid = ANY (sharded), 'feature_not_supported',
                format('table %s is Citus''s: its shards have indexes of their own', m.relation),
                format('Create another index CONCURRENTLY USING %1$I, and drop this one CONCURRENTLY; drop a constraint, and add it '
                    'again WITH (method = %1$s).', method)),
            (3, o.contype = 'f' AND current_setting('server_version_num')::int < 180000, 'dependent_objects_still_exist',
                format('foreign key %s of table %s depends on index %s', o.name, o.relation, m.member::regclass),
                'Drop the foreign key first and add it again afterwards: before PostgreSQL 18 it needs a btree index.'),
            (4, o.contype = 'x', 'dependent_objects_still_exist',
                format('index %s belongs to constraint %s', m.member::regclass, o.name),
                format('Drop the constraint, and add it again with EXCLUDE USING %I.', method)),
            (5, o.contype IN ('p', 'u') AND current_setting('server_version_num')::int < 180000,
                'dependent_objects_still_exist',
                format('index %s belongs to constraint %s', m.member::regclass, o.name),
                'Before PostgreSQL 18 such constraints need a btree index. Drop it first if a unique index will do.'),
            (5, o.contype IN ('p', 'u', 'f') AND (NOT m.leaf OR c.relispartition), 'dependent_objects_still_exist',
                format('index %s belongs to constraint %s of a partitioned table', m.member::regclass, o.name),
                format('Drop the constraint, and add it again WITH (method = %s).', method)),
            (5, NOT i.indimmediate, 'dependent_objects_still_exist',
                format('index %s belongs to constraint %s, which is deferrable', m.member::regclass, o.name),
                format('Drop the constraint, and add it again WITH (method = %s).', method)),
            (6, missing.name IS NOT NULL, 'undefined_object',
                format('operator class %s does not exist for access method "%s"', missing.name, method),
                CASE method
                    WHEN 'fpbtree' THEN format('A superuser can call fpbtree_adopt(%L).', missing.name)
                    ELSE 'CREATE OPERATOR CLASS makes one.'
                END),
            (7, method = 'fpbtree' AND i.indisunique AND NOT m.leaf
                    AND current_setting('server_version_num')::int < 180000, 'feature_not_supported',
                format('index %s is unique and partitioned', m.member::regclass),
                'Before PostgreSQL 18 only btree has such indexes: create one on each partition instead.'),
            (8, method = 'fpbtree' AND i.indisreplident
                    AND current_setting('server_version_num')::int BETWEEN 170000 AND 179999, 'feature_not_supported',
                format('index %s is the replica identity of table %s', m.member::regclass, m.relation),
                'On PostgreSQL 17 a subscriber finds rows by such an index only if it is of btree.'),
            (9, NOT m.leaf AND EXISTS (
                    SELECT FROM pg_partition_tree(i.indrelid) p
                        JOIN pg_class f ON f.oid = p.relid
                    WHERE f.relkind = 'f'), 'feature_not_supported',
                format('table %s has foreign tables among its partitions', m.relation),
                'Drop the index, and create it with the other method.'),
            (10, EXISTS (
                    SELECT FROM pg_class t
                        LEFT JOIN pg_index x ON x.indexrelid = t.oid
                    WHERE (t.relname, t.relnamespace) = (m.temporary, c.relnamespace)
                        AND x.indrelid IS DISTINCT FROM i.indrelid), 'duplicate_table',
                format('relation "%s" already exists', m.temporary),
                format('Rename it: the name is needed while index %s is moved.', m.member::regclass))
        ) AS r (rank, applies, code, message, hint)
    WHERE r.applies
    ORDER BY m.level, m.name, r.rank
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = why.code, MESSAGE = why.message, HINT = why.hint;
    END IF;
END
$refuse$;

COMMENT ON FUNCTION fpbtree_migration_refuse(pg_catalog.oid, pg_catalog.name) IS
    'raises what keeps an index from being moved; see fpbtree_migration()';

CREATE FUNCTION fpbtree_migration_finish(old pg_catalog.regclass, new pg_catalog.regclass, method pg_catalog.name)
RETURNS pg_catalog.void
LANGUAGE plpgsql STRICT
SET search_path = pg_catalog, pg_temp
AS $finish$
DECLARE
    mark text;
BEGIN
    /* It may have taken hours to build: what has become of the two meanwhile? */
    IF NOT EXISTS (
        SELECT FROM pg_index i
            JOIN pg_class n ON n.oid = i.indexrelid
            JOIN pg_am a ON a.oid = n.relam
            JOIN pg_class o ON o.oid = old
        WHERE n.oid = new AND i.indisvalid AND a.amname = method AND o.relam <> n.relam
            AND (n.relkind = 'I' OR method = 'btree' OR obj_description(new, 'pg_class') = 'sound')
            AND @extschema@.fpbtree_migration_create(new, method, n.relname)
                = @extschema@.fpbtree_migration_create(old, method, n.relname))
    THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('index %s has not been moved', new),
            DETAIL = 'What was built is invalid, was not found sound, or is not like the index any more.',
            HINT = 'An earlier message may tell why. The index is as before: call fpbtree_migration() again.';
    END IF;

    IF (SELECT m.tied FROM @extschema@.fpbtree_migration_tree(old) m WHERE m.member = old) THEN
        EXECUTE format('COMMENT ON INDEX %s IS NULL', new);
        PERFORM @extschema@.fpbtree_exchange(old, new);
        RETURN;
    END IF;

    FOR mark IN
        SELECT format('COMMENT ON INDEX %s IS %L', new, obj_description(old, 'pg_class'))
        UNION ALL
        SELECT format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', new, a.attnum, a.attstattarget)
        FROM pg_attribute a
        WHERE a.attrelid = old AND a.attstattarget >= 0
        UNION ALL
        SELECT format('ALTER INDEX %s DEPENDS ON EXTENSION %I', new, e.extname)
        FROM pg_depend d
            JOIN pg_extension e ON e.oid = d.refobjid
        WHERE (d.classid, d.objid, d.refclassid, d.deptype)
            = ('pg_class'::regclass, old, 'pg_extension'::regclass, 'x')
        UNION ALL
        SELECT format('ALTER TABLE %s %s %I', i.indrelid::regclass, m.mark, n.relname)
        FROM pg_index i
            JOIN pg_class n ON n.oid = new
            CROSS JOIN LATERAL (VALUES
                (i.indisclustered, 'CLUSTER ON'),
                (i.indisreplident, 'REPLICA IDENTITY USING INDEX')
            ) AS m (applies, mark)
        WHERE i.indexrelid = old AND m.applies
    LOOP
        EXECUTE mark;
    END LOOP;
END
$finish$;

COMMENT ON FUNCTION fpbtree_migration_finish(pg_catalog.regclass, pg_catalog.regclass, pg_catalog.name) IS
    'gives an index the comment and the marks, or the place, of the one that it is like, or raises; see fpbtree_migration()';

CREATE FUNCTION fpbtree_migration_block(statements pg_catalog.text)
RETURNS pg_catalog.text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $block$
    /* Who waits for a lock has others wait behind. Quoted as a whole, because names may contain any tag. */
    SELECT format('DO %L', format($do$
BEGIN
    IF pg_catalog.current_setting('lock_timeout') = '0' THEN
        SET LOCAL lock_timeout = '3s';
    END IF;
    %s
END
$do$, statements))
$block$;

COMMENT ON FUNCTION fpbtree_migration_block(pg_catalog.text) IS
    'statements as one transaction that does not wait long for locks; see fpbtree_migration()';

CREATE FUNCTION fpbtree_migration_drop(index pg_catalog.oid, present pg_catalog.bool)
RETURNS SETOF pg_catalog.text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $drop$
    /* A partitioned index cannot be dropped concurrently, and takes its partitions along. */
    SELECT CASE
            WHEN m.leaf THEN format('DROP INDEX CONCURRENTLY IF EXISTS %s.%I', m.schema, m.temporary)
            ELSE @extschema@.fpbtree_migration_block(format('DROP INDEX IF EXISTS %s.%I;', m.schema, m.temporary))
        END
    FROM @extschema@.fpbtree_migration_tree(index) m
        JOIN pg_index i ON i.indexrelid = m.member
    WHERE (m.leaf OR m.level = 0)
        AND (NOT present AND NOT m.tied
            OR EXISTS (
                SELECT FROM pg_index x
                    JOIN pg_class t ON t.oid = x.indexrelid
                WHERE (t.relname, x.indrelid) = (m.temporary, i.indrelid)))
    ORDER BY m.level, m.schema, m.name
$drop$;

COMMENT ON FUNCTION fpbtree_migration_drop(pg_catalog.oid, pg_catalog.bool) IS
    'statements that drop what has an index''s temporary names, all or what is present; see fpbtree_migration()';

CREATE FUNCTION fpbtree_migration_swap(index pg_catalog.oid, method pg_catalog.name)
RETURNS pg_catalog.text
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $swap$
    SELECT @extschema@.fpbtree_migration_block(
        string_agg(s.statement || ';', E'\n    ' ORDER BY s.step, m.level, m.schema, m.name))
    FROM @extschema@.fpbtree_migration_tree(index) m
        LEFT JOIN @extschema@.fpbtree_migration_tree(index) p ON p.member = m.parent
        CROSS JOIN LATERAL (VALUES
            (1, CASE WHEN NOT m.leaf AND m.level = 0 THEN 'SET LOCAL default_tablespace = ''''' END),
            (2, CASE WHEN NOT m.leaf THEN @extschema@.fpbtree_migration_create(m.member, method, m.temporary) END),
            (3, CASE WHEN m.level > 0 THEN
                format('ALTER INDEX %s.%I ATTACH PARTITION %s.%I', p.schema, p.temporary, m.schema, m.temporary) END),
            (4, CASE WHEN NOT m.tied THEN concat_ws(E';\n    ',
                format('ALTER INDEX %s.%I RENAME TO %s_', m.schema, m.name, m.temporary),
                format('ALTER INDEX %s.%I RENAME TO %I', m.schema, m.temporary, m.name),
                format('ALTER INDEX %s.%s_ RENAME TO %I', m.schema, m.temporary, m.temporary)) END),
            (5, format('PERFORM @extschema@.fpbtree_migration_finish(%L, %L, %L)',
                format('%s.%I', m.schema, CASE WHEN m.tied THEN m.name ELSE m.temporary END),
                format('%s.%I', m.schema, CASE WHEN m.tied THEN m.temporary ELSE m.name END), method))
        ) AS s (step, statement)
$swap$;

COMMENT ON FUNCTION fpbtree_migration_swap(pg_catalog.oid, pg_catalog.name) IS
    'the transaction in which an index exchanges names with its like of a method; see fpbtree_migration()';

CREATE FUNCTION fpbtree_migration(index pg_catalog.regclass, method pg_catalog.name DEFAULT 'fpbtree')
RETURNS SETOF pg_catalog.text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $migration$
DECLARE
    relation record;
BEGIN
    SELECT c.relkind IN ('i', 'I') AS is_index, a.amname AS method, i.indexprs IS NOT NULL AS expressions,
        pg_is_other_temp_schema(c.relnamespace) AS of_others,
        c.oid < 16384 OR c.relnamespace = 'pg_toast'::regnamespace AS of_system
    INTO relation
    FROM pg_class c
        LEFT JOIN pg_am a ON a.oid = c.relam
        LEFT JOIN pg_index i ON i.indexrelid = c.oid
    WHERE c.oid = index;
    IF NOT FOUND THEN
        RAISE undefined_table USING
            MESSAGE = format('relation with OID %s does not exist', index::oid),
            HINT = 'It may have been dropped just now.';
    ELSIF method NOT IN ('btree', 'fpbtree') THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('cannot move an index to access method "%s"', method),
            HINT = 'The methods are "btree" and "fpbtree".';
    ELSIF NOT relation.is_index THEN
        RAISE wrong_object_type USING
            MESSAGE = format('%s is not an index', index),
            HINT = '\d shows the indexes of a table in psql.';
    ELSIF relation.method NOT IN ('btree', 'fpbtree') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('index %s is of access method "%s"', index, relation.method),
            HINT = 'Only those of "btree" and "fpbtree" can be moved.';
    ELSIF relation.of_others THEN
        RAISE feature_not_supported USING
            MESSAGE = 'cannot move temporary indexes of other sessions',
            HINT = 'The session that has made it can.';
    ELSIF relation.of_system THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('index %s is of a system catalog or a TOAST table', index),
            HINT = 'PostgreSQL ties these indexes to btree.';
    ELSIF EXISTS (
        SELECT FROM @extschema@.fpbtree_migration_tree(index) m
            JOIN pg_class c ON c.oid = m.member
        WHERE NOT pg_has_role(c.relowner, 'USAGE'))
    THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of index %s', index),
            HINT = 'The owner of its table is, and of a partitioned one that of all partitions; so are superusers.';
    END IF;

    RETURN QUERY SELECT d.* FROM @extschema@.fpbtree_migration_drop(index, true) d;
    IF relation.method = method THEN
        IF NOT FOUND THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = format('index %s is of access method "%s" already', index, method),
                HINT = format('fpbtree_migration(%L, %L) moves it to the other one.',
                    index, CASE method WHEN 'btree' THEN 'fpbtree' ELSE 'btree' END);
        END IF;
        RETURN;
    END IF;
    PERFORM @extschema@.fpbtree_migration_refuse(index, method);

    RETURN QUERY
        SELECT @extschema@.fpbtree_migration_create(m.member, method, m.temporary)
        FROM @extschema@.fpbtree_migration_tree(index) m
        WHERE m.leaf
        ORDER BY m.schema, m.name;
    IF method = 'fpbtree' THEN
        RETURN QUERY
            SELECT @extschema@.fpbtree_migration_block(format(
                $do$IF EXISTS (SELECT FROM @extschema@.fpbtree_check(%1$L)) THEN
        RAISE index_corrupted USING MESSAGE = %2$L;
    END IF;
    COMMENT ON INDEX %1$s IS 'sound';$do$,
                format('%s.%I', m.schema, m.temporary),
                format('what was built for index %s is not sound', m.member::regclass)))
            FROM @extschema@.fpbtree_migration_tree(index) m
            WHERE m.leaf
            ORDER BY m.schema, m.name;
    END IF;
    RETURN NEXT @extschema@.fpbtree_migration_swap(index, method);
    /* While the old index still has what the planner knows of the expressions. */
    IF relation.expressions THEN
        RETURN QUERY
            SELECT format('ANALYZE %s', m.relation)
            FROM @extschema@.fpbtree_migration_tree(index) m
            WHERE m.member = index;
    END IF;
    RETURN QUERY SELECT d.* FROM @extschema@.fpbtree_migration_drop(index, false) d;
END
$migration$;

COMMENT ON FUNCTION fpbtree_migration(pg_catalog.regclass, pg_catalog.name) IS
    'statements that move an index to btree or fpbtree, for psql''s \gexec; for its owner and superusers';

/*
 * Advice: what the indexes of btree's would be as fpbtree's. How large is told from their own leaves, packed as a build packs
 * them; how fast from what was measured of keys of their kind.
 */
CREATE FUNCTION fpbtree_advise_sample(index pg_catalog.regclass, pages pg_catalog.int4)
RETURNS TABLE (
    size pg_catalog.int8,
    expected pg_catalog.int8,
    leaves pg_catalog.int8,
    is_whole pg_catalog.bool,
    entries pg_catalog.int8,
    keys pg_catalog.int8,
    neighbours pg_catalog.int8,
    ascending pg_catalog.int8,
    longest pg_catalog.int4,
    too_long pg_catalog.int8,
    fixed_width pg_catalog.bool
)
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_advise_sample_wrapper';

COMMENT ON FUNCTION fpbtree_advise_sample(pg_catalog.regclass, pg_catalog.int4) IS
    'what a sample of a btree index''s pages says of it as an fpbtree index, no row if it is gone; see fpbtree_advise()';

CREATE FUNCTION fpbtree_hypothetical(statement pg_catalog.text, pages pg_catalog.int4 DEFAULT 5000)
RETURNS TABLE (
    size pg_catalog.int8,
    leaf_pages pg_catalog.int8,
    levels pg_catalog.int4,
    entries pg_catalog.int8,
    lookup_startup pg_catalog.float8,
    lookup_cost pg_catalog.float8,
    ordered_startup pg_catalog.float8,
    ordered_cost pg_catalog.float8,
    sampled pg_catalog.int8,
    is_whole pg_catalog.bool,
    sampled_index pg_catalog.regclass,
    why_not pg_catalog.text
)
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_hypothetical_wrapper';

COMMENT ON FUNCTION fpbtree_hypothetical(pg_catalog.text, pg_catalog.int4) IS
    'how large the index would be that a CREATE INDEX statement would create, and what it would cost the planner';

/*
 * fpbtree's time divided by btree's, the least and the most of the keys that were measured: the matrix of README.md, of
 * commit 56d59dba65, on PostgreSQL 15. Its columns on sizes, WAL, scans and counts are not needed here.
 */
CREATE FUNCTION fpbtree_advise_figures()
RETURNS TABLE (
    kind pg_catalog.text,
    builds pg_catalog.text,
    inserts pg_catalog.text,
    index_only_joins pg_catalog.text,
    joins pg_catalog.text,
    lookups pg_catalog.text,
    ranges pg_catalog.text,
    vacuum pg_catalog.text,
    cold_ranges pg_catalog.text,
    redo pg_catalog.text
)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $figures$
    VALUES
        ('integers in random order', '0.30', '0.35', '0.47', '0.54', '0.98', '0.63', '0.63', '0.72', '0.59'),
        ('integers, ascending', '0.61-0.62', '0.88-0.97', '0.40-0.44', '0.57-0.58', '0.84-0.85', '0.89-0.94', '0.90-1.09', '0.97-1.04', '0.97-1.10'),
        ('uuids in random order', '0.42', '0.51', '0.57', '0.56', '0.92', '0.55', '0.64', '0.95', '0.79'),
        ('uuids, ascending', '0.60', '1.11', '0.49', '0.52', '0.97', '0.82', '1.04', '1.02', '1.16'),
        ('repeated integers in random order', '0.25-0.30', '0.43-0.54', '0.66-0.79', '0.62-0.90', '0.75-1.26', '0.57-0.60', '0.35-0.44', '0.79-0.90', '0.59-0.87'),
        ('repeated integers in the order of the table', '0.57-0.70', '0.85-1.08', '0.59-0.80', '0.74-1.01', '0.99-1.14', '1.04-1.07', '0.52-1.09', '0.97-1.14', '0.81-0.96'),
        ('few values', '0.30-0.36', '0.73-0.75', '0.67-0.70', '0.60-1.05', '0.77-1.17', '0.58-1.06', '0.59-0.89', '0.91-1.08', '0.89-0.99'),
        ('several integers in random order', '0.28', '0.40', '0.50', '0.65', '1.10', '0.62', '0.62', '0.83', '0.59'),
        ('several integers, ascending', '0.23-0.29', '0.45-0.72', '0.33-0.47', '0.55-0.60', '0.84-1.17', '0.52-0.53', '0.94-1.00', '0.97-0.98', '1.04-1.07'),
        ('several floats', '0.88', '1.08', '0.83', '0.76', '1.19', '0.62', '0.64', '0.87', '1.09'),
        ('integers and texts in byte order', '0.68', '0.92', '0.72', '0.84', '1.08', '0.58', '0.71', '0.84', '1.05'),
        ('numerics', '0.92', '0.61', '0.52', '0.67', '1.20', '0.53', '0.68', '0.71', '0.93'),
        ('texts, C', '0.36-0.87', '0.78-0.97', '0.65-0.87', '0.66-0.87', '0.98-1.15', '0.55-0.82', '0.48-0.67', '0.59-0.87', '0.70-1.07'),
        ('texts, C.UTF-8 of libc', '0.20-0.28', '0.60-0.91', '0.41-0.68', '0.52-0.78', '0.91-1.13', '0.51-0.65', '0.61-0.76', '0.71-0.86', '0.69-0.90'),
        ('texts, libc', '0.24-0.91', '0.75-0.97', '0.69-0.87', '0.73-0.92', '0.91-1.01', '0.32-0.63', '0.51-1.08', '0.76-0.86', '1.00-1.23'),
        ('texts, ICU', '0.35-1.15', '0.70-1.35', '0.52-1.37', '0.62-1.52', '0.87-1.34', '0.48-0.63', '0.65-0.89', '0.74-0.99', '1.01-1.30'),
        ('texts with INCLUDE', '0.63', '0.78', '0.73', '0.79', '1.02', '0.65', '0.75', '0.81', '0.99'),
        ('jsonb', '1.71', '1.58', '1.16', '1.09', '1.10', '0.41', '1.17', '1.18', '1.65'),
        ('arrays', '0.20', '0.72', '0.44', '0.56', '0.97', '0.62', '0.79', '0.72', '1.15'),
        ('enums', '0.45', '1.70', '0.86', '0.58', '1.14', '0.56', '1.01', '1.04', '1.89')
$figures$;

COMMENT ON FUNCTION fpbtree_advise_figures() IS
    'fpbtree''s time divided by btree''s, as measured for kinds of keys; see fpbtree_advise()';

CREATE FUNCTION fpbtree_advise_columns(index pg_catalog.oid)
RETURNS TABLE (types pg_catalog.text[], is_exactly pg_catalog.bool)
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $columns$
    /* What the matrix calls the types of the key columns; and whether all are the very types that were measured. */
    SELECT array_agg(k.type ORDER BY c.position),
        bool_and(c.input IN ('int4'::regtype, 'int8'::regtype, 'timestamptz'::regtype, 'date'::regtype, 'bool'::regtype,
            'uuid'::regtype, 'float8'::regtype, 'numeric'::regtype, 'text'::regtype, 'jsonb'::regtype, 'anyenum'::regtype))
    FROM pg_index i
        CROSS JOIN LATERAL (
            SELECT u.position, s.opcintype, f.opfname ~ '_pattern_ops$', l.collprovider = 'd',
                CASE WHEN l.collprovider = 'd' THEN d.datlocprovider ELSE l.collprovider END,
                CASE WHEN l.collprovider = 'd' THEN d.datcollate ELSE l.collcollate END
            FROM unnest(i.indclass, i.indcollation) WITH ORDINALITY AS u (class, rules, position)
                JOIN pg_opclass s ON s.oid = u.class
                JOIN pg_opfamily f ON f.oid = s.opcfamily
                JOIN pg_database d ON d.datname = current_database()
                LEFT JOIN pg_collation l ON l.oid = u.rules
            WHERE u.position <= i.indnkeyatts
        ) AS c (position, input, by_pattern, by_default, provider, locale)
        CROSS JOIN LATERAL (
            SELECT CASE
                WHEN c.input = 'bool'::regtype THEN 'bool'
                WHEN c.input IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype, 'date'::regtype,
                    'timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype, 'money'::regtype, 'xid8'::regtype,
                    'pg_lsn'::regtype, '"char"'::regtype, 'macaddr'::regtype, 'macaddr8'::regtype) THEN 'integer'
                WHEN c.input IN ('float4'::regtype, 'float8'::regtype) THEN 'float'
                WHEN c.input = 'uuid'::regtype THEN 'uuid'
                WHEN c.input = 'numeric'::regtype THEN 'numeric'
                WHEN c.input = 'jsonb'::regtype THEN 'jsonb'
                WHEN c.input = 'anyarray'::regtype THEN 'array'
                WHEN c.input = 'anyenum'::regtype THEN 'enum'
                WHEN c.input NOT IN ('text'::regtype, 'bpchar'::regtype, 'name'::regtype) THEN 'other'
                WHEN c.by_pattern OR c.provider = 'b' OR c.locale IN ('C', 'POSIX') THEN 'C'
                WHEN c.provider = 'i' THEN 'ICU'
                WHEN c.locale ~* '^C\.utf-?8$' THEN 'C.UTF-8 of libc'
                ELSE 'libc'
            END
        ) AS k (type)
    WHERE i.indexrelid = index
$columns$;

COMMENT ON FUNCTION fpbtree_advise_columns(pg_catalog.oid) IS
    'what the key columns of a btree index are, as far as it matters to fpbtree''s speed; see fpbtree_advise()';

CREATE FUNCTION fpbtree_advise_gain(
    index pg_catalog.oid,
    fixed_width pg_catalog.bool,
    rows_a_key pg_catalog.float8,
    ascends pg_catalog.bool
)
RETURNS TABLE (
    kind pg_catalog.text,
    certainty pg_catalog.text,
    faster pg_catalog.text,
    slower pg_catalog.text,
    joins_gain pg_catalog.bool
)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $gain$
    WITH known AS (
        SELECT c.types, c.is_exactly, i.indnatts > i.indnkeyatts AS includes, cardinality(c.types) > 1 AS several,
            c.types[1] AS type,
            (SELECT t FROM unnest(c.types) WITH ORDINALITY u (t, n) WHERE t IN ('libc', 'ICU') ORDER BY n LIMIT 1) AS text
        FROM pg_index i
            CROSS JOIN LATERAL @extschema@.fpbtree_advise_columns(index) c
        WHERE i.indexrelid = index
    ), told AS (
        /* The kind, and whether that is what was measured. */
        SELECT k.*
        FROM known n
            CROSS JOIN LATERAL (VALUES
                (n.includes AND n.types <@ '{C,C.UTF-8 of libc}', 'texts with INCLUDE', NOT n.several AND n.type = 'C'),
                (n.text IS NOT NULL, 'texts, ' || n.text, NOT (n.several OR n.includes)),
                (n.includes, NULL, false),
                (n.several AND fixed_width, CASE WHEN ascends THEN 'several integers, ascending'
                    ELSE 'several integers in random order' END, true),
                (n.several AND n.types <@ '{integer,float}' AND n.types && '{float}', 'several floats',
                    n.types = '{float,float}'),
                (n.several AND n.types <@ '{integer,bool,uuid,numeric,C,C.UTF-8 of libc}', 'integers and texts in byte order',
                    n.types = '{integer,C}'),
                (n.several, NULL, false),
                (n.type = 'bool' OR fixed_width AND rows_a_key >= 150, 'few values', n.type IN ('bool', 'integer')),
                (n.type IN ('integer', 'float', 'uuid') AND rows_a_key >= 2, CASE WHEN ascends
                    THEN 'repeated integers in the order of the table' ELSE 'repeated integers in random order' END,
                    n.type = 'integer'),
                (n.type IN ('integer', 'float'), CASE WHEN ascends
                    THEN 'integers, ascending' ELSE 'integers in random order' END, n.type = 'integer'),
                (n.type = 'uuid', CASE WHEN ascends THEN 'uuids, ascending' ELSE 'uuids in random order' END, true),
                (n.type IN ('C', 'C.UTF-8 of libc'), 'texts, ' || n.type, true),
                (n.type IN ('numeric', 'array', 'enum'), n.type || 's', n.type <> 'array'),
                (n.type = 'jsonb', 'jsonb', true)
            ) AS k (applies, kind, is_measured)
        WHERE k.applies
        LIMIT 1
    )
    SELECT t.kind,
        CASE WHEN f.kind IS NULL THEN 'not measured' WHEN t.is_measured AND n.is_exactly THEN 'measured' ELSE 'alike' END,
        m.faster, m.slower, m.joins_gain
    FROM known n
        LEFT JOIN told t ON true
        LEFT JOIN @extschema@.fpbtree_advise_figures() f USING (kind)
        CROSS JOIN LATERAL (
            SELECT string_agg(v.what || ' ' || v.time, ', ' ORDER BY v.n) FILTER (WHERE v.most <= 0.95),
                string_agg(v.what || ' ' || v.time, ', ' ORDER BY v.n) FILTER (WHERE v.most > 1.02),
                bool_and(v.most <= 0.95) FILTER (WHERE v.what = 'joins')
            FROM (
                SELECT c.n, c.what, c.time, substring(c.time FROM '[^-]*$')::numeric
                FROM (VALUES
                    (1, 'builds', f.builds),
                    (2, 'inserts', f.inserts),
                    (3, 'index-only joins', f.index_only_joins),
                    (4, 'joins', f.joins),
                    (5, 'lookups', f.lookups),
                    (6, 'ranges', f.ranges),
                    (7, 'VACUUM', f.vacuum),
                    (8, 'cold ranges', f.cold_ranges),
                    (9, 'redo', f.redo)
                ) AS c (n, what, time)
            ) AS v (n, what, time, most)
        ) AS m (faster, slower, joins_gain)
$gain$;

COMMENT ON FUNCTION fpbtree_advise_gain(pg_catalog.oid, pg_catalog.bool, pg_catalog.float8, pg_catalog.bool) IS
    'what was measured of keys as those of a btree index; see fpbtree_advise()';

CREATE FUNCTION fpbtree_advise_reasons(index pg_catalog.oid)
RETURNS TABLE (rank pg_catalog.int4, refuses pg_catalog.bool, reason pg_catalog.text)
LANGUAGE sql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $reasons$
    SELECT r.rank, r.refuses, r.reason
    FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_class t ON t.oid = i.indrelid
        LEFT JOIN pg_inherits p ON p.inhrelid = i.indexrelid
        CROSS JOIN LATERAL (
            SELECT v.version, v.version < 180000,
                string_agg(format('%s of table %s', quote_ident(o.conname), o.conrelid::regclass), ', ' ORDER BY o.conname)
                    FILTER (WHERE o.contype = 'f'),
                string_agg(quote_ident(o.conname), ', ') FILTER (WHERE o.contype IN ('p', 'u')),
                string_agg(quote_ident(o.conname), ', ') FILTER (WHERE o.contype = 'x')
            FROM (SELECT current_setting('server_version_num')::int) AS v (version)
                LEFT JOIN pg_constraint o ON o.conindid = i.indexrelid
            GROUP BY v.version
        ) AS k (version, is_old, foreign_keys, own, exclusion)
        CROSS JOIN LATERAL (
            SELECT string_agg(DISTINCT format('%I.%I', n.nspname, s.opcname), ', ')
            FROM unnest(i.indclass) AS used (class)
                JOIN pg_opclass s ON s.oid = used.class
                JOIN pg_namespace n ON n.oid = s.opcnamespace
            WHERE NOT EXISTS (
                SELECT FROM pg_opclass l
                    JOIN pg_am a ON a.oid = l.opcmethod
                WHERE (a.amname, l.opcname, l.opcnamespace) = ('fpbtree', s.opcname, s.opcnamespace))
        ) AS m (missing)
        CROSS JOIN LATERAL (VALUES
            (1, true, NOT (i.indisvalid AND i.indisready AND i.indislive),
                'invalid: drop it, or REINDEX it first'),
            (3, true, k.is_old AND k.foreign_keys IS NOT NULL,
                format('foreign key target: of %s; before PostgreSQL 18 that has to be a btree index', k.foreign_keys)),
            /* From 18 on it moves with its constraint, where that is not deferrable or a partition's. */
            (4, k.is_old, k.own IS NOT NULL AND (k.is_old OR NOT i.indimmediate OR p.inhparent IS NOT NULL),
                format(CASE WHEN k.is_old
                        THEN 'constraint: %s has to have a btree index before PostgreSQL 18'
                        ELSE 'constraint: drop %s, and add it WITH (method = fpbtree)' END, k.own)),
            (4, false, k.exclusion IS NOT NULL,
                format('constraint: drop %s, and add it with EXCLUDE USING fpbtree', k.exclusion)),
            (5, true, k.is_old AND i.indisunique AND k.own IS NULL AND t.relkind <> 'm',
                'ON CONFLICT: before PostgreSQL 18, INSERT ... ON CONFLICT fails on a table with a unique fpbtree index'),
            (6, true, k.is_old AND i.indisunique AND t.relkind = 'm',
                'REFRESH CONCURRENTLY: before PostgreSQL 18 that needs a unique btree index'),
            (7, true, k.is_old AND i.indisunique AND p.inhparent IS NOT NULL,
                format('partitioned: before PostgreSQL 18, unique indexes of partitioned tables, such as %s, have to be btree''s',
                    p.inhparent::regclass)),
            (7, false, p.inhparent IS NOT NULL AND NOT (k.is_old AND i.indisunique),
                format('partitioned: it moves with %s', pg_partition_root(i.indexrelid))),
            (8, true, m.missing IS NOT NULL,
                format('operator class: a superuser has to call fpbtree_adopt() for %s', m.missing)),
            (9, true, i.indisreplident AND k.version BETWEEN 170000 AND 179999,
                'replica identity: on PostgreSQL 17 a subscriber finds rows by such an index only if it is of btree')
        ) AS r (rank, refuses, applies, reason)
    WHERE i.indexrelid = index AND r.applies
$reasons$;

COMMENT ON FUNCTION fpbtree_advise_reasons(pg_catalog.oid) IS
    'what the catalogs say against moving a btree index to fpbtree, or what to do then; see fpbtree_advise()';

CREATE FUNCTION fpbtree_advise_scope(target pg_catalog.text, namespace pg_catalog.regnamespace, relation pg_catalog.regclass)
RETURNS SETOF pg_catalog.oid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $scope$
DECLARE
    found record;
BEGIN
    IF target IS NULL THEN
        RETURN QUERY
            SELECT i.indexrelid
            FROM pg_index i
                JOIN pg_class c ON c.oid = i.indexrelid
            WHERE pg_has_role(c.relowner, 'USAGE');
        RETURN;
    ELSIF relation IS NULL AND namespace IS NULL THEN
        RAISE undefined_object USING
            MESSAGE = format('there is no schema, table or index %s', target),
            HINT = 'Call fpbtree_advise() without arguments for all indexes that are yours.';
    ELSIF relation IS NOT NULL AND namespace IS NOT NULL THEN
        RAISE ambiguous_alias USING
            MESSAGE = format('%s is a schema, and %s a relation', namespace, relation),
            HINT = 'Write the relation''s schema before it. For the schema, take that one off search_path.';
    ELSIF namespace IS NOT NULL THEN
        RETURN QUERY
            SELECT i.indexrelid
            FROM pg_index i
                JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relnamespace = namespace AND pg_has_role(c.relowner, 'USAGE');
        RETURN;
    END IF;

    SELECT c.relkind, a.amname AS method, pg_has_role(c.relowner, 'USAGE') AS is_own, c.oid < 16384 AS of_system
    INTO found
    FROM pg_class c
        LEFT JOIN pg_am a ON a.oid = c.relam
    WHERE c.oid = relation;
    IF NOT found.relkind = ANY ('{r,m,p,i,I}') THEN
        RAISE wrong_object_type USING
            MESSAGE = format('%s is not a table or an index', relation),
            HINT = 'Only tables and materialized views have indexes.';
    ELSIF found.relkind IN ('i', 'I') AND found.method <> 'btree' THEN
        RAISE wrong_object_type USING
            MESSAGE = format('index %s is of access method "%s"', relation, found.method),
            HINT = 'Only those of "btree" can be advised on.';
    ELSIF NOT found.is_own THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of relation %s', relation),
            HINT = 'So are superusers.';
    ELSIF found.of_system THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('relation %s is of the system', relation),
            HINT = 'PostgreSQL ties the indexes of system catalogs to btree.';
    END IF;
    RETURN QUERY
        SELECT i.indexrelid
        FROM (SELECT relation::oid UNION SELECT relid FROM pg_partition_tree(relation)) AS members (oid)
            JOIN pg_index i ON members.oid IN (i.indrelid, i.indexrelid)
            JOIN pg_class c ON c.oid = i.indexrelid
        WHERE pg_has_role(c.relowner, 'USAGE');
END
$scope$;

COMMENT ON FUNCTION fpbtree_advise_scope(pg_catalog.text, pg_catalog.regnamespace, pg_catalog.regclass) IS
    'the indexes of a schema or a table that are the caller''s, or all; see fpbtree_advise()';

CREATE FUNCTION fpbtree_advise_index(index pg_catalog.oid, pages pg_catalog.int4)
RETURNS TABLE (
    schema pg_catalog.name,
    "table" pg_catalog.name,
    index_name pg_catalog.name,
    size pg_catalog.int8,
    expected pg_catalog.int8,
    share pg_catalog.numeric,
    kind pg_catalog.text,
    faster pg_catalog.text,
    slower pg_catalog.text,
    certainty pg_catalog.text,
    scans pg_catalog.int8,
    why_not pg_catalog.text[],
    remarks pg_catalog.text[]
)
LANGUAGE sql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
AS $index$
    SELECT n.nspname, t.relname, c.relname, s.size, e.expected, e.share, g.kind, g.faster, g.slower,
        format('size: %s; times: %s', CASE
            WHEN e.expected IS NULL THEN 'unknown'
            WHEN s.is_whole THEN 'by all leaves'
            ELSE format('by %s leaves', s.leaves)
        END, g.certainty),
        pg_stat_get_numscans(c.oid), w.why_not, w.remarks
    FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid
        JOIN pg_class t ON t.oid = i.indrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        /* What is not valid may have anything in it. */
        LEFT JOIN LATERAL @extschema@.fpbtree_advise_sample(CASE WHEN i.indisvalid THEN index::regclass END, pages) s ON true
        CROSS JOIN LATERAL (
            SELECT x.expected, round(x.expected::numeric / nullif(s.size, 0), 2)
            FROM (SELECT CASE WHEN s.too_long = 0 THEN s.expected END) AS x (expected)
        ) AS e (expected, share)
        CROSS JOIN LATERAL @extschema@.fpbtree_advise_gain(index, s.fixed_width, s.entries::float8 / nullif(s.keys, 0),
            s.ascending > 0.75 * s.neighbours) g
        CROSS JOIN LATERAL (
            SELECT array_agg(r.reason ORDER BY r.rank) FILTER (WHERE r.refuses),
                array_agg(r.reason ORDER BY r.rank) FILTER (WHERE NOT r.refuses)
            FROM (
                SELECT * FROM @extschema@.fpbtree_advise_reasons(index)
                UNION ALL
                SELECT 2, true, format('key too long: one has %s bytes, and 1800 are the most', s.longest)
                WHERE s.too_long > 0
                UNION ALL
                SELECT 10, true, format('nothing gained: it takes %s', pg_size_pretty(s.size))
                WHERE s.size <= 65536
                UNION ALL
                SELECT 10, true, format('nothing gained: it would take %s of that, and joins are not known to gain', e.share)
                WHERE s.size > 65536 AND e.share > 0.95 AND g.joins_gain IS NOT TRUE
            ) r
        ) AS w (why_not, remarks)
    WHERE c.oid = index AND (s.size IS NOT NULL OR NOT i.indisvalid)
$index$;

COMMENT ON FUNCTION fpbtree_advise_index(pg_catalog.oid, pg_catalog.int4) IS
    'what a btree index would be as an fpbtree index; see fpbtree_advise()';

CREATE FUNCTION fpbtree_advise_each(
    target pg_catalog.text,
    namespace pg_catalog.regnamespace,
    relation pg_catalog.regclass,
    pages pg_catalog.int4
)
RETURNS TABLE (
    schema pg_catalog.name,
    "table" pg_catalog.name,
    index pg_catalog.name,
    size pg_catalog.int8,
    expected pg_catalog.int8,
    share pg_catalog.numeric,
    kind pg_catalog.text,
    faster pg_catalog.text,
    slower pg_catalog.text,
    certainty pg_catalog.text,
    scans pg_catalog.int8,
    why_not pg_catalog.text[],
    remarks pg_catalog.text[]
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $each$
DECLARE
    one record;
    done int := 0;
    told timestamptz := clock_timestamp();
BEGIN
    FOR one IN
        SELECT c.oid, count(*) OVER () AS total
        FROM @extschema@.fpbtree_advise_scope(target, namespace, relation) AS s (oid)
            JOIN pg_index i ON i.indexrelid = s.oid
            JOIN pg_class c ON c.oid = i.indexrelid
            JOIN pg_am a ON a.oid = c.relam
            JOIN pg_class t ON t.oid = i.indrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE a.amname = 'btree' AND c.relkind = 'i' AND t.relkind IN ('r', 'm') AND c.oid >= 16384
            AND NOT pg_is_other_temp_schema(c.relnamespace)
            /* What is not logged has no pages on a standby. */
            AND NOT (c.relpersistence = 'u' AND pg_is_in_recovery())
        ORDER BY n.nspname, t.relname, c.relname
    LOOP
        RETURN QUERY SELECT * FROM @extschema@.fpbtree_advise_index(one.oid, pages);
        done := done + 1;
        IF clock_timestamp() >= told + interval '5 seconds' AND done < one.total THEN
            RAISE NOTICE 'fpbtree_advise has looked at % of % indexes', done, one.total;
            told := clock_timestamp();
        END IF;
    END LOOP;
END
$each$;

COMMENT ON FUNCTION fpbtree_advise_each(
    pg_catalog.text, pg_catalog.regnamespace, pg_catalog.regclass, pg_catalog.int4) IS
    'fpbtree_advise(), of what its argument names';

/* The name is looked up as the caller would: this function alone is under the caller's search_path. */
CREATE FUNCTION fpbtree_advise(target pg_catalog.text DEFAULT NULL, pages pg_catalog.int4 DEFAULT 300)
RETURNS TABLE (
    schema pg_catalog.name,
    "table" pg_catalog.name,
    index pg_catalog.name,
    size pg_catalog.int8,
    expected pg_catalog.int8,
    share pg_catalog.numeric,
    kind pg_catalog.text,
    faster pg_catalog.text,
    slower pg_catalog.text,
    certainty pg_catalog.text,
    scans pg_catalog.int8,
    why_not pg_catalog.text[],
    remarks pg_catalog.text[]
)
LANGUAGE sql VOLATILE
AS $advise$
    SELECT *
    FROM @extschema@.fpbtree_advise_each(target,
        CASE WHEN pg_catalog.array_length(pg_catalog.parse_ident(target), 1) OPERATOR(pg_catalog.=) 1
            THEN pg_catalog.to_regnamespace(target) END,
        pg_catalog.to_regclass(target), pages)
$advise$;

COMMENT ON FUNCTION fpbtree_advise(pg_catalog.text, pg_catalog.int4) IS
    'what the btree indexes of a schema or table, or all, would be as fpbtree indexes, and what speaks against it; for their '
    'owner and superusers';
