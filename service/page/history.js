// A job's numbers over time, as the chief wrote them down: all of them first, then what is new.

import { api } from "./api.js";

const MOST_POINTS = 2000;

const lengthOf = (columns) => Object.values(columns)[0]?.length ?? 0;

/** Lays `more` behind `columns`. A number that one of them does not have is null there. */
function append(columns, more) {
  const had = lengthOf(columns);
  const come = lengthOf(more);
  if (come === 0) return columns;
  const joined = {};
  for (const name of new Set([...Object.keys(columns), ...Object.keys(more)])) {
    joined[name] = (columns[name] ?? Array(had).fill(null)).concat(more[name] ?? Array(come).fill(null));
  }
  if (had + come <= MOST_POINTS) return joined;
  const last = had + come - 1;
  for (const name of Object.keys(joined)) joined[name] = joined[name].filter((_, i) => i % 2 === 0 || i === last);
  return joined;
}

export class History {
  constructor(name) {
    this.name = name;
    this.clear();
  }

  clear() {
    this.mark = "";
    this.lines = { train: {}, epoch: {}, eval: {} };
    this.tasks = {};
  }

  /** Whether anything is new. */
  async update() {
    const news = await api.history(this.name, this.mark);
    const moved = news.mark !== this.mark || news.restarted;
    const another = news.run && this.run && news.run !== this.run;
    if (news.restarted || another) this.clear();
    this.run = news.run ?? this.run;
    this.mark = news.mark;
    for (const kind of Object.keys(this.lines)) this.lines[kind] = append(this.lines[kind], news[kind]);
    for (const [task, columns] of Object.entries(news.tasks)) {
      this.tasks[task] = append(this.tasks[task] ?? {}, columns);
    }
    return moved;
  }

  /** The points of a column that has any: {x: seconds, y}. */
  series(kind, column) {
    return points(this.lines[kind], column);
  }

  taskSeries(task, column) {
    return points(this.tasks[task] ?? {}, column);
  }

  columns(kind) {
    return Object.keys(this.lines[kind]);
  }
}

function points(columns, column) {
  const x = columns.elapsed;
  const y = columns[column];
  return x && y && y.some((value) => value !== null) ? { x, y } : null;
}
