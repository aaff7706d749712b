/* fpbtree 0.1.0: the access method, its operator classes and its functions. */

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

