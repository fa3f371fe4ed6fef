export { openSmtpMailer, type SmtpMailerOptions } from './mailer.ts';
