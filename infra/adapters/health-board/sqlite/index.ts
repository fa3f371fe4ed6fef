export { openSqliteHealthBoard, type SqliteHealthBoardOptions } from './health-board.ts';
