-- A comparison function that has changed since the index was built, as that of a collation changes with its library:
-- scans may miss rows until REINDEX, as with btree, or say that the index is damaged, but they end.
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA changed_order;
SET search_path = changed_order, public;
CREATE TYPE w AS (t text);
CREATE FUNCTION w_cmp(a w, b w) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$
DECLARE
    x text := a.t COLLATE "C";
    y text := b.t COLLATE "C";
BEGIN
    CASE current_setting('changed.order', true)
        WHEN 'hash' THEN RETURN btint4cmp(hashtext(x), hashtext(y));
        WHEN 'lower' THEN RETURN bttextcmp(lower(x) COLLATE "C", lower(y) COLLATE "C");
        WHEN 'reverse' THEN RETURN bttextcmp(reverse(x) COLLATE "C", reverse(y) COLLATE "C");
        -- No order at all: it goes round.
        WHEN 'knot' THEN
            IF x <> y THEN
                RETURN CASE WHEN hashtext(least(x, y) || greatest(x, y)) & 1 = 0 THEN 1 ELSE -1 END
                     * CASE WHEN x < y THEN 1 ELSE -1 END;
            END IF;
        ELSE NULL;
    END CASE;
    RETURN bttextcmp(x COLLATE "C", y COLLATE "C");
END $$;
CREATE FUNCTION w_lt(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN changed_order.w_cmp($1, $2) < 0; END';
CREATE FUNCTION w_le(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN changed_order.w_cmp($1, $2) <= 0; END';
CREATE FUNCTION w_eq(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN changed_order.w_cmp($1, $2) = 0; END';
CREATE FUNCTION w_ge(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN changed_order.w_cmp($1, $2) >= 0; END';
CREATE FUNCTION w_gt(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN changed_order.w_cmp($1, $2) > 0; END';
CREATE OPERATOR < (leftarg = w, rightarg = w, function = w_lt, commutator = >, negator = >=);
CREATE OPERATOR <= (leftarg = w, rightarg = w, function = w_le, commutator = >=, negator = >);
CREATE OPERATOR = (leftarg = w, rightarg = w, function = w_eq, commutator = =);
CREATE OPERATOR >= (leftarg = w, rightarg = w, function = w_ge, commutator = <=, negator = <);
CREATE OPERATOR > (leftarg = w, rightarg = w, function = w_gt, commutator = <, negator = <=);
CREATE OPERATOR CLASS w_ops DEFAULT FOR TYPE w USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 w_cmp(w, w);
SELECT count(*) > 0 FROM fpbtree_adopt('w_ops');

CREATE TABLE t (id int, v w);
INSERT INTO t SELECT i, row((ARRAY['Alpha', 'alpha', 'BETA', 'beta', 'Zebra', 'zebra'])[1 + i % 6] || (hashint4(i) & 1023))::w
FROM generate_series(1, 3000) i;
CREATE INDEX t_v ON t USING fpbtree (v);
CREATE TABLE g (id int, v w);
INSERT INTO g SELECT i, v FROM t, generate_series(1, 20) i WHERE t.id % 3 = 0;
CREATE INDEX g_v ON g USING fpbtree (v, id);
VACUUM ANALYZE g;
-- Groups, and values of the next column, that go on from leaf to leaf.
CREATE TABLE h (v w, few int);
INSERT INTO h SELECT v, i % 3 FROM t, generate_series(1, 20000) i WHERE t.id <= 12;
CREATE INDEX h_few ON h USING fpbtree (v, few);
VACUUM ANALYZE h;

-- What became of scans: how many rows, an error, or more rows than there are.
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    rows int := 0;
    r record;
BEGIN
    FOR r IN EXECUTE query LOOP
        rows := rows + 1;
        IF rows > 40000 THEN
            RETURN 'endless';
        END IF;
    END LOOP;
    RETURN 'ended';
EXCEPTION WHEN index_corrupted THEN
    RETURN 'ended';
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET max_parallel_workers_per_gather = 0;
SET statement_timeout = '5min';
CREATE FUNCTION outcomes(changed text) RETURNS TABLE (outcome text, scans bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('changed.order', changed, false);
    RETURN QUERY SELECT changed_order.outcome(format('SELECT v FROM changed_order.t WHERE v %s row(%L)::changed_order.w ORDER BY v USING %s', op, x, way)), count(*)
    FROM unnest('{<,>=}'::text[]) op, unnest('{<,>}'::text[]) way, unnest('{Alpha1,beta9,zebra77}'::text[]) x
    GROUP BY 1;
    -- From group to group.
    RETURN QUERY SELECT 'groups ' || changed_order.outcome(format('SELECT DISTINCT ON (v) v, id FROM changed_order.g ORDER BY v %s %s', way, last)), count(*)
    FROM unnest('{ASC,DESC}'::text[]) way, unnest('{"",",id","",",id DESC"}'::text[]) last
    GROUP BY 1;
    -- From value to value.
    RETURN QUERY SELECT 'values ' || changed_order.outcome('SELECT v, count(DISTINCT few) FROM changed_order.h GROUP BY v'), 1::bigint;
END $$;
SELECT changed, outcome, scans FROM unnest('{none,hash,lower,reverse,knot}'::text[]) changed, outcomes(changed) ORDER BY 1, 2;
DROP SCHEMA changed_order CASCADE;
