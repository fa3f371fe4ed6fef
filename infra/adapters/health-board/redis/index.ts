export { openRedisHealthBoard, type RedisHealthBoardOptions } from './health-board.ts';
