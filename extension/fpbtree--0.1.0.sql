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
 * Operator families: copies of btree's, every member of them. Half a family would not only do less: on PostgreSQL 18
 * it would make plans of btree indexes worse. What the server knows of btree is read from its own catalogs, so the
 * copies are complete on every version.
 *
 * Only catalog objects and qualified names are used: whatever schema the extension is created in cannot interfere.
 */
DO $mirror$
DECLARE
    family pg_catalog.pg_opfamily;
    class record;
    members pg_catalog.text;
BEGIN
    FOR family IN
        SELECT f.*
        FROM pg_catalog.pg_opfamily f
            JOIN pg_catalog.pg_am am ON am.oid OPERATOR(pg_catalog.=) f.opfmethod
        WHERE am.amname OPERATOR(pg_catalog.=) 'btree'
            AND f.opfnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
            AND f.opfname OPERATOR(pg_catalog.=) ANY ('{
                bool_ops, char_ops, integer_ops, oid_ops, float_ops, datetime_ops, time_ops, money_ops, uuid_ops,
                macaddr_ops, macaddr8_ops, pg_lsn_ops, xid8_ops}'::pg_catalog.name[])
        ORDER BY f.oid
    LOOP
        EXECUTE pg_catalog.format('CREATE OPERATOR FAMILY %I USING fpbtree', family.opfname);

        /* The classes, each with the members that are about its own type alone. */
        FOR class IN
            SELECT c.opcname, c.opcintype, c.opcdefault
            FROM pg_catalog.pg_opclass c
            WHERE c.opcfamily OPERATOR(pg_catalog.=) family.oid
                AND c.opcnamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace
            ORDER BY c.oid
        LOOP
            SELECT pg_catalog.string_agg(m.member, ', ')
            INTO STRICT members
            FROM (
                SELECT pg_catalog.format('OPERATOR %s %I.%s', o.amopstrategy, n.nspname, p.oprname) AS member
                FROM pg_catalog.pg_amop o
                    JOIN pg_catalog.pg_operator p ON p.oid OPERATOR(pg_catalog.=) o.amopopr
                    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.oprnamespace
                WHERE o.amopfamily OPERATOR(pg_catalog.=) family.oid
                    AND o.amoplefttype OPERATOR(pg_catalog.=) class.opcintype
                    AND o.amoprighttype OPERATOR(pg_catalog.=) class.opcintype
                UNION ALL
                SELECT pg_catalog.format('FUNCTION %s %s', f.amprocnum, f.amproc::pg_catalog.oid::pg_catalog.regprocedure)
                FROM pg_catalog.pg_amproc f
                WHERE f.amprocfamily OPERATOR(pg_catalog.=) family.oid
                    AND f.amproclefttype OPERATOR(pg_catalog.=) class.opcintype
                    AND f.amprocrighttype OPERATOR(pg_catalog.=) class.opcintype
            ) m;
            EXECUTE pg_catalog.format(
                'CREATE OPERATOR CLASS %I %s FOR TYPE %s USING fpbtree FAMILY %I AS %s',
                class.opcname,
                CASE WHEN class.opcdefault THEN 'DEFAULT' END,
                class.opcintype::pg_catalog.regtype,
                family.opfname,
                members);
        END LOOP;

        /* The members about two types. */
        SELECT pg_catalog.string_agg(m.member, ', ')
        INTO STRICT members
        FROM (
            SELECT pg_catalog.format('OPERATOR %s %I.%s (%s, %s)', o.amopstrategy, n.nspname, p.oprname,
                o.amoplefttype::pg_catalog.regtype, o.amoprighttype::pg_catalog.regtype) AS member
            FROM pg_catalog.pg_amop o
                JOIN pg_catalog.pg_operator p ON p.oid OPERATOR(pg_catalog.=) o.amopopr
                JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.oprnamespace
            WHERE o.amopfamily OPERATOR(pg_catalog.=) family.oid
                AND o.amoplefttype OPERATOR(pg_catalog.<>) o.amoprighttype
            UNION ALL
            SELECT pg_catalog.format('FUNCTION %s (%s, %s) %s', f.amprocnum,
                f.amproclefttype::pg_catalog.regtype, f.amprocrighttype::pg_catalog.regtype,
                f.amproc::pg_catalog.oid::pg_catalog.regprocedure)
            FROM pg_catalog.pg_amproc f
            WHERE f.amprocfamily OPERATOR(pg_catalog.=) family.oid
                AND f.amproclefttype OPERATOR(pg_catalog.<>) f.amprocrighttype
        ) m;
        IF members IS NOT NULL THEN
            EXECUTE pg_catalog.format('ALTER OPERATOR FAMILY %I USING fpbtree ADD %s', family.opfname, members);
        END IF;
    END LOOP;
END
$mirror$;

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
    inner_widths pg_catalog.text
)
LANGUAGE c STRICT VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fpbtree_stats_wrapper';

COMMENT ON FUNCTION fpbtree_stats(pg_catalog.regclass) IS
    'the shape of an fpbtree index, for those who may SELECT from its table';
