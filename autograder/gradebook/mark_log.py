"""The log of marks: the gradebook's own database notes every change of a person's mark, whichever program makes it.

Triggers of the database write a row for each changed, added or deleted manual score, extra credit and comment, in the
same transaction. So formgrader, stock nbgrader and a script are logged like `autograder group`. A row says when, whose,
what it was and what it is. It says who and why where the program tells: this project's commands do, and formgrader's
server tells the account that runs it if it was started with the configuration of the course tree.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, NullPool, create_engine, event, inspect, text
from sqlalchemy.orm import Session

from autograder.gradebook import journal

WATCHED = [
    ("grade", "manual_score", "score"),
    ("grade", "extra_credit", "extra credit"),
    ("comment", "manual_comment", "comment"),
]
OPERATIONS = ("update", "insert", "delete")
BEGIN, FOUND = "the log of marks begins", "found when the log began: entered before, nobody knows when"
TABLES = {
    "sqlite": "id integer primary key autoincrement",
    "postgresql": "id bigint generated always as identity primary key",
}
CHANGES = """
create table if not exists mark_change ({key}, happened text not null, student text, notebook text, cell text,
    what text not null, before text, after text, account text, reason text)
"""
WRITER = "create table if not exists mark_writer (account text not null, reason text not null)"
STUDENT = """(select submitted_assignment.student_id from submitted_notebook join submitted_assignment
    on submitted_notebook.assignment_id = submitted_assignment.id where submitted_notebook.id = {row}.notebook_id)"""
NOTEBOOK = """(select notebook.name from base_cell join notebook on base_cell.notebook_id = notebook.id
    where base_cell.id = {row}.cell_id)"""
CELL = "(select base_cell.name from base_cell where base_cell.id = {row}.cell_id)"
LITE = """
create trigger {name} {timing} {operation} on {table} when {when}
begin
    insert into mark_change (happened, student, notebook, cell, what, before, after, account, reason)
    values (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), {student}, {notebook}, {cell}, '{what}',
        cast({old} as text), cast({new} as text),
        (select account from mark_writer), (select reason from mark_writer));
end
"""
FUNCTION = """
create or replace function note_mark_change() returns trigger language plpgsql as $body$
declare
    old_value text := case when TG_OP = 'INSERT' then null else to_jsonb(OLD) ->> TG_ARGV[0] end;
    new_value text := case when TG_OP = 'DELETE' then null else to_jsonb(NEW) ->> TG_ARGV[0] end;
    place record;
begin
    if TG_OP = 'DELETE' then place := OLD; else place := NEW; end if;
    if old_value is distinct from new_value then
        insert into mark_change (happened, student, notebook, cell, what, before, after, account, reason)
        values (to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), {student}, {notebook}, {cell},
            TG_ARGV[1], old_value, new_value,
            coalesce((select account from mark_writer limit 1), 'database user ' || session_user),
            (select reason from mark_writer limit 1));
    end if;
    return place;
end $body$
"""
POSTGRES = (
    "create trigger {name} {timing} {operation} on {table} for each row "
    "execute function note_mark_change('{column}', '{what}')"
)
HELD = """
select submitted_assignment.student_id, notebook.name, base_cell.name, {table}.{column}
from {table} join base_cell on {table}.cell_id = base_cell.id
join notebook on base_cell.notebook_id = notebook.id
join submitted_notebook on {table}.notebook_id = submitted_notebook.id
join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id
where {table}.{column} is not null
"""
ROWS = "select happened, student, notebook, cell, what, before, after, account, reason from mark_change order by id"
INSERT = """
insert into mark_change (happened, student, notebook, cell, what, before, after, account, reason)
values (:happened, :student, :notebook, :cell, :what, :before, :after, :account, :reason)
"""


def install(connection: Connection) -> None:
    """Have the database log marks, if it does not yet. The caller commits.

    Where triggers are missing, as in a gradebook of an older version or one that nbgrader has rebuilt, what changed
    without them is noted too, with the time at which it was found.
    """
    dialect = connection.dialect.name
    wanted = {f"mark_change_{table}_{column}_{operation}" for table, column, _ in WATCHED for operation in OPERATIONS}
    if dialect == "sqlite":
        known = "select name from sqlite_master where type = 'trigger'"
    else:
        known = "select tgname from pg_trigger where tgname like 'mark_change_%'"
    there = {row[0] for row in connection.execute(text(known))}
    if wanted <= there:
        return
    connection.execute(text(CHANGES.format(key=TABLES[dialect])))
    connection.execute(text(WRITER))
    if dialect != "sqlite":
        connection.exec_driver_sql(_placed(FUNCTION, "place"))
    for table, column, what in WATCHED:
        for operation in OPERATIONS:
            name = f"mark_change_{table}_{column}_{operation}"
            if name not in there:
                statement = _trigger(dialect, name, table, column, what, operation)
                connection.exec_driver_sql(statement)
    _note_unlogged(connection)


def _trigger(dialect: str, name: str, table: str, column: str, what: str, operation: str) -> str:
    # A row is looked at before it is deleted: afterwards nothing says any more whose it was.
    timing = "before" if operation == "delete" else "after"
    on = f"update of {column}" if operation == "update" else operation
    if dialect != "sqlite":
        return POSTGRES.format(name=name, timing=timing, operation=on, table=table, column=column, what=what)
    old = "null" if operation == "insert" else f"old.{column}"
    new = "null" if operation == "delete" else f"new.{column}"
    statement = _placed(LITE, "old" if operation == "delete" else "new")
    given = {"when": f"{old} is not {new}", "old": old, "new": new, "what": what}
    return statement.format(name=name, timing=timing, operation=on, table=table, **given)


def _placed(statement: str, row: str) -> str:
    """A statement with the queries that find student, notebook and cell of a row."""
    parts = {"student": STUDENT, "notebook": NOTEBOOK, "cell": CELL}
    for name, part in parts.items():
        statement = statement.replace(f"{{{name}}}", part.format(row=row))
    return statement


def _note_unlogged(connection: Connection) -> None:
    """Note that the log begins, and each mark that is not the last one logged."""
    last: dict[tuple[str, ...], str | None] = {}
    for row in connection.execute(text(ROWS)).mappings():
        last[row["student"], row["notebook"], row["cell"], row["what"]] = row["after"]
    empty = {"student": None, "notebook": None, "cell": None, "before": None, "after": None, "account": None}
    happened = {"happened": journal.now()}
    connection.execute(text(INSERT), empty | happened | {"what": BEGIN, "reason": None})
    for table, column, what in WATCHED:
        for student, notebook, cell, value in connection.execute(text(HELD.format(table=table, column=column))).all():
            before = last.get((student, notebook, cell, what))
            if _number(before) != _number(value) and not (what == "extra credit" and not value and before is None):
                about = {"student": student, "notebook": notebook, "cell": cell, "what": what, "before": before}
                connection.execute(text(INSERT), empty | happened | about | {"after": str(value), "reason": FOUND})


def _number(value: Any) -> Any:
    """A value as databases agree on it: 2 is 2.0."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def sign(connection: Connection, reason: str = "") -> None:
    """Say who writes the next marks, and why, until `unsign` in the same transaction."""
    connection.execute(
        text("insert into mark_writer (account, reason) values (:account, :reason)"),
        {"account": journal.account(), "reason": reason},
    )


def unsign(connection: Connection) -> None:
    """Take back what `sign` said; no other transaction has seen it."""
    connection.execute(text("delete from mark_writer"))


def sign_sessions() -> None:
    """Sign the marks that this process writes through nbgrader's objects, as formgrader's server does."""
    for name, listener in signing_listeners("entered in formgrader").items():
        event.listen(Session, name, listener)


@contextmanager
def signed(session: Session, reason: str) -> Iterator[None]:
    """Sign what nbgrader writes in this session meanwhile."""
    listeners = signing_listeners(reason)
    for name, listener in listeners.items():
        event.listen(session, name, listener)
    try:
        yield
    finally:
        for name, listener in listeners.items():
            event.remove(session, name, listener)


def signing_listeners(reason: str) -> dict[str, Callable[..., None]]:
    """What a session has to do before and after it writes, so that nobody but its own transaction sees the name."""
    signed_sessions: set[int] = set()

    def before(session: Session, *given: Any) -> None:
        names = {type(row).__name__ for row in (*session.dirty, *session.new, *session.deleted)}
        if names & {"Grade", "Comment", "SubmittedAssignment"} and _has(session.connection(), "mark_writer"):
            sign(session.connection(), reason)
            signed_sessions.add(id(session))

    def after(session: Session, *given: Any) -> None:
        if id(session) in signed_sessions:
            signed_sessions.discard(id(session))
            unsign(session.connection())

    return {"before_flush": before, "after_flush": after}


def _has(connection: Connection, table: str) -> bool:
    return inspect(connection).has_table(table)


def changes(url: str) -> list[dict[str, Any]]:
    """Every logged change of a mark in the gradebook at this URL, in order; [] if nothing is logged yet."""
    engine = create_engine(url, poolclass=NullPool)
    if engine.url.get_backend_name() == "sqlite" and not Path(engine.url.database or "").exists():
        return []  # to connect would make one
    with engine.connect() as connection:
        if not _has(connection, "mark_change"):
            return []
        return [dict(row) for row in connection.execute(text(ROWS)).mappings()]
